"""What steps of the same work differ by, and for how long such a difference lasts.

Kept as it occurred: the factors between measured and predicted times, at fixed shares. How much
a step is like the one before it is the correlation of their ranks, so a few wild steps cannot
make it up.
"""

import math
import random
from statistics import NormalDist

import numpy as np

from dataplane.simulation.fitting.document import Noise
from dataplane.simulation.fitting.regression import Array

_SHARES = (0, 0.01, 0.02, 0.05, *(n / 20 for n in range(2, 19)), 0.95, 0.98, 0.99, 1)  # fmt: skip
_TABLE_SIZE = 1024
_MAX_CORRELATION = 0.98
_NUM_DRAWN = 4096
_NORMAL = NormalDist()


def measure_noise(factors: Array) -> Noise:
    """`factors` in order of time: measured by predicted."""
    quantiles = np.maximum.accumulate(np.quantile(factors, _SHARES))
    return Noise(
        shares=tuple(float(share) for share in _SHARES),
        factors=tuple(float(factor) for factor in quantiles),
        correlation=_rank_correlation(factors),
    )


def _rank_correlation(factors: Array) -> float:
    if len(factors) < 3 or np.ptp(factors) < 1e-9:
        return 0.0
    ranks = np.argsort(np.argsort(factors)).astype(float)
    scores = np.array([_NORMAL.inv_cdf((rank + 0.5) / len(factors)) for rank in ranks])
    found = float(np.corrcoef(scores[:-1], scores[1:])[0, 1])
    return min(_MAX_CORRELATION, max(0.0, found))


class NoiseSource:
    """Draws factors, one a step, each like the one before it as far as the noise says."""

    __slots__ = ("_correlation", "_drawn", "_fresh", "_position", "_random", "_score", "_table")

    def __init__(self, noise: Noise, seed: int) -> None:
        """The same seed draws the same factors."""
        at = (np.arange(_TABLE_SIZE) + 0.5) / _TABLE_SIZE
        self._table: list[float] = np.interp(at, noise.shares, noise.factors).tolist()
        self._random = random.Random(seed)
        self._correlation = noise.correlation
        self._fresh = math.sqrt(1.0 - noise.correlation**2)
        self._score = self._random.gauss(0.0, 1.0)
        self._drawn: list[float] = []
        self._position = 0

    def draw(self) -> float:
        """The next factor."""
        if self._position == len(self._drawn):
            self._drawn = self._draw_more()
            self._position = 0
        factor = self._drawn[self._position]
        self._position += 1
        return factor

    def _draw_more(self) -> list[float]:
        """Many at once: a draw costs an index on the way."""
        table, gauss, erf = self._table, self._random.gauss, math.erf
        correlation, fresh, score = self._correlation, self._fresh, self._score
        last, half = _TABLE_SIZE - 1, _TABLE_SIZE / 2
        drawn = []
        for _ in range(_NUM_DRAWN):
            score = correlation * score + fresh * gauss(0.0, 1.0)
            place = int(half * (1.0 + erf(score * math.sqrt(0.5))))
            drawn.append(table[min(last, place)])
        self._score = score
        return drawn
