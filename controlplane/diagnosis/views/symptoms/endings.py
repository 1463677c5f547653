"""What ended otherwise than by an answer: requests, loads, processes."""

from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.served import recovered_from, serves_since
from dataplane.engine_metrics.signal import Signal

LOST_SHARE = 0.03
"""Of what ended: a few percent of callers leave or send nonsense everywhere."""
_BAD_EVENTS = (
    LogKind.OUT_OF_MEMORY,
    LogKind.HOST_OUT_OF_MEMORY,
    LogKind.FAILED_TO_START,
    LogKind.FREE_MEMORY_TOO_LITTLE,
    LogKind.KV_CACHE_TOO_SMALL,
    LogKind.DIED,
    LogKind.NO_PROGRESS,
    LogKind.OUTPUT_WITHOUT_OWNER,
    LogKind.MEMORY_LEAK,
    LogKind.REJECTED,
    LogKind.TRANSFER_FAILED,
    LogKind.COLLECTIVE_SLOW,
    LogKind.FULL_REPROCESS,
    LogKind.ERROR,
)


def events(now: Activity) -> Iterator[str]:
    """Lines of logs that tell of trouble, the newest, since what was last recovered from."""
    over = recovered_from(now.window)
    is_over = over is not None and serves_since(now.window, over)
    for event in now.window.events_of(*_BAD_EVENTS)[-3:]:
        if not is_over or over is None or event.index > over.index:
            yield event.line.strip()[:160]


def counters(now: Activity) -> Iterator[str]:
    """Requests that end otherwise than by an answer."""
    ended = None if now.finished is None else now.finished.increase
    for signal in (Signal.FAILED, Signal.REJECTED, Signal.ABORTED, Signal.GATEWAY_REJECTED):
        series = now.window.find(signal)
        lost = None if series is None else series.increase
        if series is not None and lost and lost > max(1.0, LOST_SHARE * (ended or 0.0)):
            yield f"{series.origin.name} {series.first.raw} -> {series.last.raw}"
    for signal in (Signal.LEAKED, Signal.TRANSFER_FAILURES):
        series = now.window.find(signal)
        if series is not None and series.increase:
            yield f"{series.origin.name} {series.last.raw}"
    unreleased = now.window.find(Signal.UNRELEASED)
    if unreleased is not None and unreleased.last.value > 0 and not _was_empty(unreleased):
        yield f"{unreleased.origin.name} {unreleased.last.raw}"


def _was_empty(series: Series) -> bool:
    """A moment ago. Whatever ends is released with the next step, so that each end is seen there
    by whoever reads between the two; what is lost stays there."""
    empty = [reading.at for reading in series.readings if reading.value <= 0]
    return bool(empty) and series.last.at - empty[-1] <= _RELEASED_SECONDS


_RELEASED_SECONDS = 5.0
"""Steps on a CPU that is short take seconds. Who scrapes less often than that cannot tell it."""
