"""How a number is spread over many requests: percentiles, of all values or of a histogram."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

_BUCKET = math.log(1.02)
_LEAST = 1e-9


class Spread:
    """How one latency is spread: a histogram of it."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.num_values = 0

    def add(self, value: float) -> None:
        """One more, in seconds."""
        self.num_values += 1
        self._counts[round(math.log(max(value, _LEAST)) / _BUCKET)] += 1

    def quantiles(self, shares: Sequence[float]) -> list[float | None]:
        """The smallest value that so many of all are at most, within 1 %; None without any."""
        return [self._value_at(rank) for rank in _ranks(shares, self.num_values)]

    def _value_at(self, rank: int | None) -> float | None:
        if rank is None:
            return None
        for bucket, count in sorted(self._counts.items()):
            if rank < count:
                return math.exp(bucket * _BUCKET)
            rank -= count
        raise AssertionError("a rank is below the number of values")


def exact_quantiles(values: "np.ndarray[Any, Any]", shares: Sequence[float]) -> list[float | None]:
    """The smallest value that so many of all are at most; None without any. NaN does not count."""
    values = values[~np.isnan(values)]
    ranks = _ranks(shares, len(values))
    known = sorted({rank for rank in ranks if rank is not None})
    ordered = np.partition(values, known) if known else values
    return [None if rank is None else float(ordered[rank]) for rank in ranks]


def _ranks(shares: Sequence[float], num_values: int) -> list[int | None]:
    if not num_values:
        return [None for _ in shares]
    return [max(0, math.ceil(share * num_values) - 1) for share in shares]
