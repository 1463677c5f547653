"""A shorter stretch of a window: what was read, written and counted within it."""

from collections.abc import Iterator
from dataclasses import replace

from controlplane.diagnosis.log_event import LogEvent
from controlplane.diagnosis.reading import HistogramSeries
from controlplane.diagnosis.window import Window


def stretch_of(window: Window, start: float, end: float) -> Window:
    """`window` from `start` to `end`, both included. Facts and changes of before stay, for they
    hold until another is told; of a histogram stays the state that it had at the beginning. A line
    without a time belongs to the one above it."""
    lines = list(_lines(window, start, end))
    return replace(
        window,
        start=start,
        end=end,
        series=tuple(
            part for each in window.series if (part := each.between(start, end)) is not None
        ),
        histograms=tuple(
            state
            for each in window.histograms
            if (state := states_between(each, start, end)) is not None
        ),
        facts=tuple(fact for fact in window.facts if fact.at <= end),
        events=tuple(_events(window, start, end)),
        lines=tuple(line for line, _ in lines),
        line_times=tuple(at for _, at in lines),
        changes=tuple(change for change in window.changes if change.at <= end),
        doubts=tuple(d for d in window.doubts if d.at is None or start <= d.at <= end),
        whole=window,
    )


def states_between(histogram: HistogramSeries, start: float, end: float) -> HistogramSeries | None:
    """Its states from the one that it had at `start` on; None where none was read since."""
    readings = [each for each in histogram.readings if each.at <= end]
    if not readings or readings[-1].at < start:
        return None
    first = max((i for i, each in enumerate(readings) if each.at <= start), default=0)
    return replace(histogram, readings=tuple(readings[first:]))


def _events(window: Window, start: float, end: float) -> Iterator[LogEvent]:
    at = window.start
    for event in window.events:
        at = at if event.at is None else event.at
        if start <= at <= end:
            yield event


def _lines(window: Window, start: float, end: float) -> Iterator[tuple[str, float | None]]:
    """All of them, where their times are not known."""
    times = window.line_times
    if len(times) != len(window.lines):
        yield from ((line, None) for line in window.lines)
        return
    at = window.start
    for line, told in zip(window.lines, times, strict=True):
        at = at if told is None else told
        if start <= at <= end:
            yield line, told
