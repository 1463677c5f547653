"""When requests arrive: processes that give one time after the other, in seconds, for ever."""

import heapq
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


class ArrivalProcess(Protocol):
    """Times of arrival."""

    def times(self, stream: random.Random) -> Iterator[float]:
        """From 0 on, in order, without an end."""
        ...


@dataclass(frozen=True, slots=True)
class Regular:
    """One every so many seconds; the first at 0."""

    every: float

    def times(self, stream: random.Random) -> Iterator[float]:
        """Multiples, so that nothing is rounded twice."""
        return (number * self.every for number in itertools.count())


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent of each other."""

    rate: float
    """Per second."""

    def times(self, stream: random.Random) -> Iterator[float]:
        """Sums of exponential gaps."""
        at = 0.0
        while True:
            at += stream.expovariate(self.rate)
            yield at


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """Clusters that come independently; each has a geometric number of requests, close together."""

    rate: float
    """Clusters per second."""
    mean_size: float
    """Requests of a cluster, at least 1."""
    within: float
    """Seconds over which a cluster's requests are spread evenly."""

    def times(self, stream: random.Random) -> Iterator[float]:
        """Clusters may overlap."""
        to_come: list[float] = []
        next_cluster = stream.expovariate(self.rate)
        while True:
            while not to_come or next_cluster <= to_come[0]:
                for _ in range(self._draw_size(stream)):
                    heapq.heappush(to_come, next_cluster + self.within * stream.random())
                next_cluster += stream.expovariate(self.rate)
            yield heapq.heappop(to_come)

    def _draw_size(self, stream: random.Random) -> int:
        size = 1
        while stream.random() * self.mean_size >= 1:
            size += 1
        return size
