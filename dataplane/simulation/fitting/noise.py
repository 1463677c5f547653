"""What steps of the same work differ by, and for how long such a difference lasts.

Kept as it occurred: the factors between measured and predicted times, at fixed shares, for steps
with prompt tokens and without. How much a step is like the one before it is the correlation of
their ranks, so a few wild steps cannot make it up, and a slow minute is slow for both kinds.
"""

import math
from itertools import accumulate
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from dataplane.simulation.fitting.document import Noise
from dataplane.simulation.fitting.regression import Array
from dataplane.simulation.random_streams import random_stream

_SHARES = (0, 0.01, 0.02, 0.05, *(n / 20 for n in range(2, 19)), 0.95, 0.98, 0.99, 1)  # fmt: skip
_TABLE_SIZE = 1024
_MAX_CORRELATION = 0.98
_NUM_DRAWN = 4096
_MIN_OF_A_KIND = 20
_SAME = 1e-9
_NORMAL = NormalDist()


def measure_noise(factors: Array, has_prompt: npt.NDArray[np.bool_]) -> Noise:
    """`factors` in order of time: measured by predicted. `has_prompt` tells which steps had
    prompt tokens; a kind with few steps is taken to differ as all do."""
    return Noise(
        shares=tuple(float(share) for share in _SHARES),
        decode_factors=_quantiles(factors, ~has_prompt),
        prompt_factors=_quantiles(factors, has_prompt),
        correlation=_rank_correlation(_ranked(factors, has_prompt)),
    )


def _quantiles(factors: Array, chosen: npt.NDArray[np.bool_]) -> tuple[float, ...]:
    enough = factors[chosen] if chosen.sum() >= _MIN_OF_A_KIND else factors
    return tuple(np.maximum.accumulate(np.quantile(enough, _SHARES)).tolist())


def _ranked(factors: Array, has_prompt: npt.NDArray[np.bool_]) -> Array:
    """Each step's rank among those of its kind, from 0 to 1; the middle where none differs."""
    ranks = np.full(len(factors), 0.5)
    for chosen in (has_prompt, ~has_prompt):
        if not chosen.any() or np.ptp(factors[chosen]) < _SAME:
            continue
        order = np.argsort(np.argsort(factors[chosen], kind="stable"), kind="stable")
        ranks[chosen] = (order + 0.5) / len(order)
    return ranks


def _rank_correlation(ranks: Array) -> float:
    """Of each step with the next, as if ranks were of a normal distribution."""
    if len(ranks) < 3:
        return 0.0
    scores = np.array([_NORMAL.inv_cdf(float(rank)) for rank in ranks])
    if np.ptp(scores[:-1]) == 0 or np.ptp(scores[1:]) == 0:
        return 0.0
    found = float(np.corrcoef(scores[:-1], scores[1:])[0, 1])
    return min(_MAX_CORRELATION, max(0.0, found))


def noise_seed(seed: int, replica_id: str) -> int:
    """Each replica draws by itself, and none as another does under another seed: else all would
    be slow in the same steps, and several seeds would tell of one evening."""
    return random_stream(seed, "noise", replica_id).getrandbits(64)


class NoiseSource:
    """Draws ranks, one a step, each like the one before it as far as the noise says.

    A rank is a place in `decode_factors` or `prompt_factors`, whichever the step is of.
    """

    __slots__ = (
        "_bounds",
        "_correlation",
        "_fresh",
        "_generator",
        "_score",
        "decode_factors",
        "prompt_factors",
        "ranks",
    )

    def __init__(self, noise: Noise, seed: int) -> None:
        """The same seed draws the same ranks."""
        at = (np.arange(_TABLE_SIZE) + 0.5) / _TABLE_SIZE
        self.decode_factors: list[float] = np.interp(
            at, noise.shares, noise.decode_factors
        ).tolist()
        self.prompt_factors: list[float] = np.interp(
            at, noise.shares, noise.prompt_factors
        ).tolist()
        shares = (number / _TABLE_SIZE for number in range(1, _TABLE_SIZE))
        self._bounds = np.array([_NORMAL.inv_cdf(share) for share in shares])
        self._generator = np.random.Generator(np.random.PCG64(seed % 2**128))
        self._correlation = noise.correlation
        self._fresh = math.sqrt(1.0 - noise.correlation**2)
        self._score = float(self._generator.standard_normal())
        self.ranks: list[int] = []
        """What comes next, the nearest last. Whoever is in a hurry takes it from here."""

    def draw(self, has_prompt: bool) -> float:
        """The factor of the next step."""
        if not self.ranks:
            self.refill()
        return (self.prompt_factors if has_prompt else self.decode_factors)[self.ranks.pop()]

    def refill(self) -> None:
        """Draw many at once."""
        correlation = self._correlation
        fresh = (self._fresh * self._generator.standard_normal(_NUM_DRAWN)).tolist()
        scores = accumulate(fresh, lambda last, new: correlation * last + new, initial=self._score)
        found = np.fromiter(scores, dtype=float, count=_NUM_DRAWN + 1)[1:]
        self._score = float(found[-1])
        self.ranks = np.searchsorted(self._bounds, found)[::-1].tolist() + self.ranks
