"""Latencies as counts in buckets, so that percentiles of any range can be added up. Pure.

Percentiles themselves cannot be added; counts can. Each bucket is 2 ** (1/4) wide, about 19 %,
and a percentile is placed inside its bucket by rank: it is off by less than that, usually by a
few per cent, whatever range and mixture it is taken over.
"""

import math
from collections.abc import Mapping

_PER_OCTAVE = 4
_UNIT_SECONDS = 0.001
_LOWEST, _HIGHEST = -40, 100
"""About 1 us and 9 h: what lies beyond is counted in the outermost bucket."""


def bucket_of(seconds: float) -> int:
    """The number of the bucket that `seconds` falls into; its upper bound belongs to it."""
    if seconds <= 0:
        return _LOWEST
    number = math.ceil(math.log2(seconds / _UNIT_SECONDS) * _PER_OCTAVE - 1e-9)
    return min(max(number, _LOWEST), _HIGHEST)


def upper_bound(bucket: int) -> float:
    """Seconds."""
    return float(_UNIT_SECONDS * 2.0 ** (bucket / _PER_OCTAVE))


def quantile(counts: Mapping[int, int], share: float) -> float | None:
    """Seconds, from counts by bucket. None: nothing was counted."""
    total = sum(counts.values())
    if total <= 0:
        return None
    rank = share * total
    passed = 0
    for bucket in sorted(counts):
        if passed + counts[bucket] >= rank:
            inside = min(max((rank - passed) / counts[bucket], 0.0), 1.0)
            return upper_bound(bucket) * float(2.0 ** ((inside - 1) / _PER_OCTAVE))
        passed += counts[bucket]
    return upper_bound(max(counts))
