"""How many sequences each replica is given at once, so that its answers keep a pace.

A replica that decodes more at once takes longer for each token; how much, depends on the machine
and on what is asked. So no number that is written down holds for all traffic. What is written
down is the pace, the seconds of a token (TPOT), and from each answer it is learned what a token
took for each sequence that was held beside it::

    share of an answer  s = TPOT / sequences held, its own included
    limit               floor(pace / (mean of s + LATE x mean deviation of s))

Of many at once each takes a smaller share, since a step costs something whoever is in it. So a
limit that is learned from few lets in a few more, whose answers raise it further, and one that is
too high comes down at once: it closes in on the number whose slower answers just keep the pace,
from both sides, however late answers tell.
"""

from collections.abc import Set
from dataclasses import dataclass

_NEWEST_SHARE = 0.05
"""Of the newest answer, once there are as many as that makes."""
LATE = 2.0
"""Mean deviations above the mean that must keep the pace: some nineteen of twenty answers."""
MIN_ANSWERS = 8
"""Fewer say nothing."""
_FULL_WEIGHT_TOKENS = 16
"""Gaps of an answer that is counted whole; of a shorter one chance says more."""
_MAX_LIMIT = 100_000
"""Sequences: more than any engine runs at once."""


@dataclass(slots=True)
class _Learned:
    """Of one replica."""

    num_answers: int = 0
    weight: float = 0.0
    mean: float = 0.0
    deviation: float = 0.0

    def learn(self, share: float, weight: float) -> None:
        self.num_answers += 1
        self.weight += weight
        newest = weight * max(_NEWEST_SHARE, 1 / self.weight)
        if self.num_answers > 1:  # the first is off from nothing
            self.deviation += newest * (abs(share - self.mean) - self.deviation)
        self.mean += newest * (share - self.mean)


class PaceLimits:
    """Of the replicas of one deployment."""

    def __init__(self, tpot_seconds: float) -> None:
        self.tpot_seconds = tpot_seconds
        self._replicas: dict[str, _Learned] = {}

    def note_answer(
        self, replica_id: str, tpot_seconds: float, num_tokens: int, num_held: float
    ) -> None:
        """An answer of so many tokens ended there, beside which so many sequences were held, its
        own included, in the mean."""
        learned = self._replicas.get(replica_id)
        if learned is None:
            learned = self._replicas[replica_id] = _Learned()
        weight = min(1.0, (num_tokens - 1) / _FULL_WEIGHT_TOKENS)
        learned.learn(tpot_seconds / max(1.0, num_held), weight)

    def limit(self, replica_id: str) -> int | None:
        """Sequences that it may be given at once, at least one; None: nobody can tell yet."""
        learned = self._replicas.get(replica_id)
        if learned is None or learned.num_answers < MIN_ANSWERS:
            return None
        slow = learned.mean + LATE * learned.deviation
        if slow * _MAX_LIMIT <= self.tpot_seconds:
            return None  # quicker than any limit matters
        return max(1, int(self.tpot_seconds / slow))

    def keep_only(self, replica_ids: Set[str]) -> None:
        """All others are gone."""
        for replica_id in self._replicas.keys() - replica_ids:
            del self._replicas[replica_id]
