"""What watches over an engine wrote of it: that nothing moves."""

import re

from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.window import Window

_OWN_WATCHDOG = re.compile(
    r"watchdog timeout|watchdog caught collective|rpc call to \w+ timed out|scheduler .*stuck|"
    r"deadlock|engine .*(is )?hung|engine iteration timed out|hang detected|hangdetector|"
    r"no forward progress|has not made progress|heartbeat (timeout|lost|expired)|"
    r"RayChannelTimeoutError|timed out waiting \d+ ?ms for (recv|send) operation",
    re.IGNORECASE,
)
"""Written by a watch over steps alone; a full buffer between processes may be a compilation."""
_STARTING = (
    LogKind.STARTING,
    LogKind.WEIGHTS_LOADING,
    LogKind.WEIGHTS_LOADED,
    LogKind.COMPILED,
    LogKind.PROFILING,
    LogKind.GRAPH_CAPTURE_STARTED,
)


def notices_of(window: Window) -> tuple[LogEvent, ...]:
    known = {event.line: event for event in window.events}
    stated = [
        known.get(window.lines[index])
        or LogEvent(kind=LogKind.ERROR, index=index, line=window.lines[index])
        for index in window.places_with(_OWN_WATCHDOG.pattern)
    ]
    stated = [event for event in stated if event.kind is not LogKind.NO_PROGRESS]
    return (*window.events_of(LogKind.NO_PROGRESS), *stated)


def is_starting(window: Window, notices: tuple[LogEvent, ...]) -> bool:
    """A process that waits for a compilation says the same."""
    if not notices:
        return False
    ready = window.last_event(LogKind.READY, LogKind.INITIALIZED)
    starting = window.last_event(*_STARTING)
    if starting is None:
        return False
    return ready is None or ready.index < starting.index or notices[-1].index < ready.index


def moments_of(notices: tuple[LogEvent, ...]) -> list[float]:
    return [event.at for event in notices if event.at is not None]


def own_watch(notices: tuple[LogEvent, ...]) -> tuple[LogEvent, ...]:
    """Those that only a watch over the engine's own steps writes."""
    return tuple(event for event in notices if _OWN_WATCHDOG.search(event.line))
