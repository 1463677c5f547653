"""When the load client sends, decided before the run: arrivals do not wait for completions."""

from enum import StrEnum
from random import Random


class Arrivals(StrEnum):
    """How requests come."""

    EVEN = "even"
    POISSON = "poisson"


def arrival_times(kind: Arrivals, rate: float, seconds: float, seed: int) -> list[float]:
    """Seconds from the start, ascending, all below `seconds`. `rate` is of requests a second."""
    if kind is Arrivals.EVEN:
        return [number / rate for number in range(int(rate * seconds))]
    draw, at, times = Random(seed), 0.0, list[float]()
    while (at := at + draw.expovariate(rate)) < seconds:
        times.append(at)
    return times
