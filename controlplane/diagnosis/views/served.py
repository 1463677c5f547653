"""Requests that somebody counted as served, and an engine that met a failure and serves since."""

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.views.told import number_of, says_no, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_SERVED = (
    r"\b(requests?|answers?|completions?|calls?|prompts?|turns?)\b.*\b(served|done|ok|completed"
    r"|answered|finished|succeeded|success\w*)\b"
    r"|\b(served|answered|completed|succeeded)\b.*\b(requests?|total|count)\b|^(served|answered)$"
)
_NOT_SERVED = r"failed|per s\b|share|rate|token|before|p\d\d|time"
_FAILURES = r"\b(errors?|failures?|failed|lost|5xx|http 5\d\d)\b"
_AGAIN = r"retry|re-?trying|tr(y|ied|ying) again|fall(s|ing)? back|falling back|instead|without"
_FAILED = (LogKind.OUT_OF_MEMORY, LogKind.ERROR, LogKind.FREE_MEMORY_TOO_LITTLE)
_ENDED = (LogKind.DIED, LogKind.FAILED_TO_START, LogKind.HOST_OUT_OF_MEMORY)
_SERVES = (LogKind.REQUEST_ENDED, LogKind.GENERATED, LogKind.PROMPT_EVALUATED)


def served(window: Window) -> Fact | None:
    """The newest count of requests that were answered, where nobody counts one that failed; None
    where none was."""
    counts = [
        fact
        for fact in told_all(window, _SERVED, without=_NOT_SERVED)
        if fact.unit in (Unit.REQUESTS, None) and (number_of(fact) or 0.0) > 0
    ]
    failures = told_all(window, _FAILURES)
    if not counts or not all(says_no(fact) or number_of(fact) == 0 for fact in failures):
        return None
    return counts[-1]


def recovered_from(window: Window) -> LogEvent | None:
    """The last failure that the engine itself tried again after, and since which it is ready; None
    where there was none, or one that nothing followed."""
    ready = window.last_event(LogKind.READY)
    failed = window.last_event(*_FAILED)
    if ready is None or failed is None or window.events_of(*_ENDED):
        return None
    if failed.index > ready.index:
        return None
    return failed if window.lines_with(_AGAIN) else None


def serves_since(window: Window, moment: LogEvent) -> bool:
    """Any request ended after it, by the log or by whoever counts."""
    later = (event.index > moment.index for event in window.events_of(*_SERVES))
    return any(later) or served(window) is not None
