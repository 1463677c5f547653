"""How numbers vary: lengths in tokens, and waits in seconds.

Each is drawn from a stream that is passed in. Lengths are whole and at least 1.
"""

import bisect
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

ItemT = TypeVar("ItemT")


class Distribution(Protocol):
    """A number at a time."""

    def draw(self, stream: random.Random) -> float:
        """The next one; never negative."""
        ...


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same."""

    value: float

    def draw(self, stream: random.Random) -> float:
        """Takes nothing from the stream."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """Around a median, with a long tail; `sigma` is of the logarithm. Cut off at `most`."""

    median: float
    sigma: float
    most: float = math.inf

    def draw(self, stream: random.Random) -> float:
        """One number."""
        drawn = self.median * math.exp(stream.gauss(0.0, self.sigma))
        return drawn if drawn < self.most else self.most


@dataclass(frozen=True, slots=True)
class Uniform:
    """Evenly between two bounds."""

    least: float
    most: float

    def draw(self, stream: random.Random) -> float:
        """One number."""
        return self.least + (self.most - self.least) * stream.random()


@dataclass(frozen=True, slots=True)
class Exponential:
    """Without memory."""

    mean: float

    def draw(self, stream: random.Random) -> float:
        """One number."""
        return stream.expovariate(1.0 / self.mean)


@dataclass(frozen=True, slots=True)
class Empirical:
    """What was seen, each value as often as it was. Raises ValueError without any."""

    values: Sequence[float]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("an empirical distribution needs at least one value")

    def draw(self, stream: random.Random) -> float:
        """One of them."""
        return self.values[int(stream.random() * len(self.values))]


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianAndTail:
    """Half of them the median, and the rest ever longer, through p95 and not far beyond: a
    log-normal through the two would now and then be so long as nobody ever waited."""

    median: float
    p95: float

    def draw(self, stream: random.Random) -> float:
        """One number."""
        above = max(0.0, stream.random() - 0.5) / 0.45
        return self.median + (self.p95 - self.median) * above**3


def draw_length(distribution: Distribution, stream: random.Random) -> int:
    """Whole tokens, at least 1."""
    length = round(distribution.draw(stream))
    return length if length > 1 else 1


class Choice(Generic[ItemT]):
    """One of several things, by weight. Raises ValueError where nothing can be chosen."""

    def __init__(self, weight_by_item: Sequence[tuple[ItemT, float]]) -> None:
        self._items = [item for item, weight in weight_by_item if weight > 0]
        weights = [weight for _, weight in weight_by_item if weight > 0]
        if not self._items:
            raise ValueError("nothing to choose from: give at least one thing a weight above 0")
        self._bounds = list(itertools.accumulate(weights))

    def draw(self, stream: random.Random) -> ItemT:
        """One of them. Takes nothing from the stream where there is only one."""
        if len(self._items) == 1:
            return self._items[0]
        at = bisect.bisect_right(self._bounds, stream.random() * self._bounds[-1])
        return self._items[min(at, len(self._items) - 1)]
