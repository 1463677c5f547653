"""The beginning and the end of a window: what a counter or a histogram did in each."""

from dataclasses import dataclass

from controlplane.diagnosis.reading import HistogramReading, HistogramSeries, Series
from controlplane.diagnosis.views.counted_at_end import for_speeds
from controlplane.diagnosis.window import Window

_SHARE = 1 / 3
"""Of the window: what began within it has settled in the last third, and the first was before."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A figure of the first and of the last third."""

    before: float
    after: float

    @property
    def factor(self) -> float:
        """How many times as much; infinite where there was nothing."""
        return self.after / self.before if self.before > 0 else float("inf")


def rates(series: Series | None, window: Window) -> Parts | None:
    """Per second, of a counter. None where either third has fewer than two readings, or too few
    ends of a counter that moves with them."""
    series = None if series is None else for_speeds(series, window)
    if series is None:
        return None
    third = (window.end - window.start) * _SHARE
    first = series.between(window.start, window.start + third)
    last = series.between(window.end - third, window.end)
    before = None if first is None else first.per_second
    after = None if last is None else last.per_second
    return None if before is None or after is None else Parts(before, after)


def recent_rate(series: Series | None, window: Window) -> float | None:
    """Per second over the last third."""
    series = None if series is None else for_speeds(series, window)
    if series is None:
        return None
    last = series.between(window.end - (window.end - window.start) * _SHARE, window.end)
    return None if last is None else last.per_second


def observed_parts(
    histogram: HistogramSeries | None, window: Window
) -> tuple[HistogramReading, HistogramReading] | None:
    """What was observed in the first and in the last third."""
    if histogram is None or len(histogram.readings) < 4:
        return None
    third = (window.end - window.start) * _SHARE
    first = [reading for reading in histogram.readings if reading.at <= window.start + third]
    last = [reading for reading in histogram.readings if reading.at >= window.end - third]
    before, after = _between(first), _between(last)
    return None if before is None or after is None else (before, after)


def recent_mean(histogram: HistogramSeries, window: Window) -> float | None:
    """Of the last third; None where nothing was observed in it."""
    start = window.end - (window.end - window.start) * _SHARE
    part = _between([reading for reading in histogram.readings if reading.at >= start])
    return None if part is None or part.count <= 0 else part.sum / part.count


def share_above(reading: HistogramReading, bound: float) -> float:
    """Of what was observed, the share above `bound`, by the nearest bound of a bucket above it."""
    if reading.count <= 0:
        return 0.0
    for upper, count in zip(reading.bounds, reading.counts, strict=True):
        if upper >= bound:
            return 1 - count / reading.count
    return 0.0


def median_of(reading: HistogramReading) -> float | None:
    """The upper bound of the bucket with the median."""
    for upper, count in zip(reading.bounds, reading.counts, strict=True):
        if reading.count > 0 and count >= reading.count / 2:
            return upper
    return None


def _between(readings: list[HistogramReading]) -> HistogramReading | None:
    if len(readings) < 2:
        return None
    first, last = readings[0], readings[-1]
    if first.bounds != last.bounds or last.count < first.count:
        return None
    return HistogramReading(
        last.at,
        last.bounds,
        tuple(max(0.0, b - a) for a, b in zip(first.counts, last.counts, strict=True)),
        last.sum - first.sum,
        last.count - first.count,
    )
