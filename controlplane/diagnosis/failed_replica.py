"""Which of several replicas failed, and what is seen of it alone.

That another one was started, or serves, says nothing of one that is dead. Who is known by name: a
replica's, as lines and pages are told apart by it, or that of the file that it writes, of which a
rotated one is a part.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.reading import HistogramSeries, Series, SourceKind
from controlplane.diagnosis.window import Window

FAILURES = (
    LogKind.OUT_OF_MEMORY,
    LogKind.HOST_OUT_OF_MEMORY,
    LogKind.KV_CACHE_TOO_SMALL,
    LogKind.FREE_MEMORY_TOO_LITTLE,
    LogKind.FAILED_TO_START,
    LogKind.DIED,
    LogKind.MEMORY_LEAK,
)
"""What is written of them happens at one moment."""
STARTS = (
    LogKind.STARTING,
    LogKind.WEIGHTS_LOADING,
    LogKind.WEIGHTS_LOADED,
    LogKind.KV_CACHE_SIZED,
    LogKind.GRAPH_CAPTURE_FINISHED,
    LogKind.INITIALIZED,
    LogKind.READY,
)
ANSWERS = (LogKind.REQUEST_ENDED, LogKind.GENERATED)
_OF_HOSTS = LogKind.HOST_OUT_OF_MEMORY
"""A kernel's log is no engine's."""
_OF_ENGINES = (*(each for each in FAILURES if each is not _OF_HOSTS), *STARTS, *ANSWERS)
_EXPORTED = (SourceKind.METRICS, SourceKind.PROMETHEUS)
_ROTATED = re.compile(r"(?<=\.log)[.-]\d+(\.(gz|xz|zst|bz2))?$")


def of_failed(window: Window, start: float, end: float) -> Window | None:
    """What was read and written of the replica that failed from `start` to `end`, until it was seen
    last, with the lines and facts of all; the whole of one alone; None where it is not known which
    of several it was."""
    writers = set(_writers(window))
    if len(writers) <= 1 and len(_exporting(window)) <= 1:
        return window
    failed = {_writer(each) for each in _failures(window, start, end)} & writers
    return _of(window, failed.pop()) if len(failed) == 1 else None


def fails_within(window: Window, start: float, end: float) -> bool:
    """Something is written from `start` to `end` that happens at one moment."""
    return bool(_failures(window, start, end))


def _failures(window: Window, start: float, end: float) -> list[LogEvent]:
    return [
        event
        for event in window.events_of(*FAILURES)
        if event.at is not None and start <= event.at <= end
    ]


def _of(window: Window, name: str) -> Window:
    series = tuple(each for each in window.series if _owner(each) == name)
    events = tuple(each for each in window.events if _writer(each) == name)
    written = [event.at for event in events if event.at is not None]
    return replace(
        window,
        end=max((*written, *(each.last.at for each in series))),
        series=series,
        histograms=tuple(each for each in window.histograms if _owner(each) == name),
        events=events,
    )


def _writers(window: Window) -> Iterator[str]:
    """Of the logs of engines."""
    yield from map(_writer, window.events_of(*_OF_ENGINES))
    for each in window.series:
        if each.origin.kind is SourceKind.LOG:
            yield _owner(each)


def _exporting(window: Window) -> frozenset[str]:
    exported = (each for each in window.series if each.origin.kind in _EXPORTED)
    return frozenset(map(_owner, exported))


def _writer(event: LogEvent) -> str:
    return _ROTATED.sub("", event.words.get("replica") or event.place)


def _owner(series: Series | HistogramSeries) -> str:
    """Empty of a page that names none."""
    place = series.origin.place if series.origin.kind is SourceKind.LOG else ""
    return _ROTATED.sub("", series.labels.get("replica") or place)
