"""What steps of the same work differ by, and for how long such a difference lasts.

Kept as it occurred: the factors between measured and predicted times, at fixed shares. How much
a step is like the one before it is the correlation of their ranks, so a few wild steps cannot
make it up.
"""

import math
from itertools import accumulate
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

    __slots__ = ("_bounds", "_correlation", "_factors", "_fresh", "_generator", "_score", "drawn")

    def __init__(self, noise: Noise, seed: int) -> None:
        """The same seed draws the same factors."""
        at = (np.arange(_TABLE_SIZE) + 0.5) / _TABLE_SIZE
        self._factors: Array = np.interp(at, noise.shares, noise.factors)
        shares = (number / _TABLE_SIZE for number in range(1, _TABLE_SIZE))
        self._bounds = np.array([_NORMAL.inv_cdf(share) for share in shares])
        self._generator = np.random.Generator(np.random.PCG64(seed % 2**128))
        self._correlation = noise.correlation
        self._fresh = math.sqrt(1.0 - noise.correlation**2)
        self._score = float(self._generator.standard_normal())
        self.drawn: list[float] = []
        """What comes next, the nearest last. Whoever is in a hurry takes it from here."""

    def draw(self) -> float:
        """The next factor."""
        if not self.drawn:
            self.refill()
        return self.drawn.pop()

    def refill(self) -> None:
        """Draw many at once."""
        correlation = self._correlation
        fresh = (self._fresh * self._generator.standard_normal(_NUM_DRAWN)).tolist()
        scores = accumulate(fresh, lambda last, new: correlation * last + new, initial=self._score)
        found = np.fromiter(scores, dtype=float, count=_NUM_DRAWN + 1)[1:]
        self._score = float(found[-1])
        factors = self._factors[np.searchsorted(self._bounds, found)]
        self.drawn = factors[::-1].tolist() + self.drawn
