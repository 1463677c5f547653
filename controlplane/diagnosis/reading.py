"""Readings of a signal in time order, each with where it is from and as it stood there."""

import bisect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from dataplane.engine_metrics.signal import Signal


class SourceKind(StrEnum):
    """What kind of place a value is from."""

    METRICS = "metrics"
    """A /metrics endpoint, or what was saved of one."""
    PROMETHEUS = "prometheus"
    """A Prometheus server."""
    LOG = "log"
    GATEWAY = "gateway"
    """What is known beside the engine: a gateway's own count, an operator's note."""
    RECORDS = "records"
    """Our records of requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a series was found, so that whoever doubts it can look."""

    kind: SourceKind
    name: str
    """As it is called there: `vllm:gpu_cache_usage_perc`, `Running` of a log line."""
    place: str = ""
    """A file or an address."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One value at one time."""

    at: float
    """Seconds on the window's clock."""
    value: float
    """In the signal's unit."""
    raw: str
    """As the source wrote it, such as `95.9 %`; findings cite this."""


@dataclass(frozen=True, slots=True)
class HistogramReading:
    """One state of a histogram: cumulative counts by upper bound, all since the process started."""

    at: float
    bounds: tuple[float, ...]
    """Upper bounds, rising; the last is infinite."""
    counts: tuple[float, ...]
    """Cumulative, one for each bound."""
    sum: float
    count: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One gauge or counter with one set of labels. There is at least one reading."""

    signal: Signal
    origin: Origin
    readings: tuple[Reading, ...]
    """In time order."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those that tell series of one signal apart: `engine` (a rank), `replica`, `reason`."""

    @property
    def first(self) -> Reading:
        """The oldest reading."""
        return self.readings[0]

    @property
    def last(self) -> Reading:
        """The newest reading."""
        return self.readings[-1]

    @property
    def span_seconds(self) -> float:
        """From the oldest to the newest reading."""
        return self.last.at - self.first.at

    @property
    def values(self) -> tuple[float, ...]:
        """Of all readings."""
        return tuple(reading.value for reading in self.readings)

    @property
    def min(self) -> float:
        """The least value."""
        return min(self.values)

    @property
    def max(self) -> float:
        """The greatest value."""
        return max(self.values)

    @property
    def mean(self) -> float:
        """Of the values, whatever the time between them."""
        return sum(self.values) / len(self.readings)

    @property
    def change(self) -> float:
        """Newest minus oldest, of a gauge."""
        return self.last.value - self.first.value

    @property
    def is_constant(self) -> bool:
        """Twice read at least, and never another value."""
        return len(self.readings) > 1 and self.min == self.max

    @property
    def increase(self) -> float | None:
        """Of a counter; a fall is a restart from zero. None with fewer than two readings."""
        if len(self.readings) < 2:
            return None
        steps = itertools.pairwise(self.values)
        return sum(after - before if after >= before else after for before, after in steps)

    @property
    def per_second(self) -> float | None:
        """The increase by time; None where it cannot be known."""
        increase = self.increase
        return None if increase is None or self.span_seconds <= 0 else increase / self.span_seconds

    def at(self, moment: float) -> Reading | None:
        """The newest reading not after `moment`."""
        index = bisect.bisect_right(self.readings, moment, key=lambda reading: reading.at)
        return self.readings[index - 1] if index else None

    def between(self, start: float, end: float) -> "Series | None":
        """The same with the readings from `start` to `end` alone; None where there are none."""
        kept = tuple(reading for reading in self.readings if start <= reading.at <= end)
        return (
            Series(signal=self.signal, origin=self.origin, readings=kept, labels=self.labels)
            if kept
            else None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramSeries:
    """One histogram with one set of labels. There is at least one reading."""

    signal: Signal
    origin: Origin
    readings: tuple[HistogramReading, ...]
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def observed(self) -> HistogramReading:
        """What was observed within the window, over restarts too; all since the start, where it was
        read once or its bounds changed."""
        first, last = self.readings[0], self.readings[-1]
        if first is last or first.bounds != last.bounds:
            return last
        last = without_restarts(self.readings)[-1]
        return HistogramReading(
            last.at,
            last.bounds,
            tuple(max(0.0, b - a) for a, b in zip(first.counts, last.counts, strict=True)),
            last.sum - first.sum,
            last.count - first.count,
        )

    @property
    def mean(self) -> float | None:
        """Of what was observed; None where nothing was."""
        observed = self.observed
        return observed.sum / observed.count if observed.count > 0 else None

    def quantile(self, share: float) -> float | None:
        """Within its bucket by straight line, as Prometheus does; beyond the last finite bound that
        bound. None where nothing was observed."""
        observed = self.observed
        rank = share * observed.count
        if observed.count <= 0:
            return None
        lower, below = 0.0, 0.0
        for bound, count in zip(observed.bounds, observed.counts, strict=True):
            if count >= rank and count > below:
                if bound == float("inf"):
                    return lower
                return lower + (bound - lower) * (rank - below) / (count - below)
            lower, below = bound, count
        return lower


def without_restarts(readings: Sequence[HistogramReading]) -> list[HistogramReading]:
    """The states as they would be had the process not restarted: what was counted before goes on.
    Those with other bounds than the last are left out."""
    alike = [reading for reading in readings if reading.bounds == readings[-1].bounds]
    followed = [alike[0]]
    for before, after in itertools.pairwise(alike):
        base = followed[-1]
        told = HistogramReading(0.0, before.bounds, (0.0,) * len(before.counts), 0.0, 0.0)
        told = before if after.count >= before.count else told
        followed.append(
            HistogramReading(
                after.at,
                after.bounds,
                tuple(
                    had + now - then
                    for had, now, then in zip(base.counts, after.counts, told.counts, strict=True)
                ),
                base.sum + after.sum - told.sum,
                base.count + after.count - told.count,
            )
        )
    return followed
