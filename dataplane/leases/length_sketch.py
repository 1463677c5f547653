"""How long answers are, over a stream of them: a bounded histogram that forgets.

Lengths below 64 have a bucket each; above, a bucket is 2 % wide, so that a quantile is off by
at most that. When it holds as many as it is to remember, every count is halved: what came since
counts for more than all before, and a class that begins to answer longer is soon known to.
"""

import math

_EXACT = 64
_STEP = math.log(1.02)
_MAX_LENGTH = 2**22
_REMEMBERED = 4096


def _bucket_of(length: int) -> int:
    if length < _EXACT:
        return max(0, length)
    return _EXACT + math.floor(math.log(min(length, _MAX_LENGTH) / _EXACT) / _STEP)


def _longest_of(bucket: int) -> int:
    if bucket < _EXACT:
        return bucket
    return math.ceil(_EXACT * math.exp((bucket - _EXACT + 1) * _STEP))


class LengthSketch:
    """Quantiles of lengths, in tokens. At most some 650 counts, however many are added."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        """Of the newest `remembered` each counts as much as any other."""
        self.num_added = 0
        """All that ever were."""
        self._remembered = remembered
        self._counts: dict[int, int] = {}
        self._total = 0
        self._known: dict[float, int] = {}

    def add(self, length: int) -> None:
        """One more."""
        bucket = _bucket_of(length)
        self.num_added += 1
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self._total += 1
        self._known.clear()
        if self._total >= 2 * self._remembered:
            self._forget_half()

    def quantile(self, share: float) -> int | None:
        """A length that `share` of them do not exceed, rounded up to its bucket's end; None
        without any. Raises ValueError for a share outside of (0, 1]."""
        if not 0 < share <= 1:
            raise ValueError(f"{share} is no share; give one above 0 and at most 1")
        if not self._total:
            return None
        known = self._known.get(share)
        if known is None:
            known = self._known[share] = self._find(math.ceil(share * self._total))
        return known

    def _find(self, rank: int) -> int:
        for bucket in sorted(self._counts):
            rank -= self._counts[bucket]
            if rank <= 0:
                return _longest_of(bucket)
        raise AssertionError(f"{self._total} lengths are counted, and the buckets hold fewer")

    def _forget_half(self) -> None:
        halved = {bucket: count // 2 for bucket, count in self._counts.items()}
        self._counts = {bucket: count for bucket, count in halved.items() if count}
        self._total = sum(self._counts.values())
