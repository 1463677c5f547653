"""What ended otherwise than by an answer: requests, loads, processes."""

from collections.abc import Iterator

from controlplane.diagnosis.log_event import LogKind
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
    for signal in (Signal.UNRELEASED, Signal.LEAKED, Signal.TRANSFER_FAILURES):
        series = now.window.find(signal)
        if (
            series is not None
            and (series.last.value if signal is Signal.UNRELEASED else (series.increase or 0.0)) > 0
        ):
            yield f"{series.origin.name} {series.last.raw}"
