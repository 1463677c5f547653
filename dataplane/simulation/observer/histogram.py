"""A histogram as Prometheus has it, cheap enough for every step."""

from bisect import bisect_left


class Histogram:
    """Counts by upper bound, and the sum. `bounds` ascend; above the last is +Inf."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """The same value so many times, at the price of one."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Observations so far."""
        return sum(self.counts)
