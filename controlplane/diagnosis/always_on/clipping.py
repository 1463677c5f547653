"""The newest part of a window."""

from dataclasses import replace

from controlplane.diagnosis.reading import HistogramSeries
from controlplane.diagnosis.window import Window


def newest_part(window: Window, seconds: float) -> Window:
    """The same, with what was read in its last `seconds`. Facts, changes and what logs say stay:
    they hold until another is told. A histogram keeps the state that it had at the beginning."""
    start = max(window.start, window.end - seconds)
    series = (each.between(start, window.end) for each in window.series)
    return replace(
        window,
        start=start,
        series=tuple(each for each in series if each is not None),
        histograms=tuple(
            clipped for each in window.histograms if (clipped := _clipped(each, start)) is not None
        ),
        doubts=tuple(each for each in window.doubts if each.at is None or each.at >= start),
    )


def _clipped(histogram: HistogramSeries, start: float) -> HistogramSeries | None:
    readings = histogram.readings
    first = max((i for i, each in enumerate(readings) if each.at <= start), default=0)
    if readings[-1].at < start:
        return None
    return replace(histogram, readings=readings[first:])
