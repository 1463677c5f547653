"""What stands still, to the digit, of all that an engine exports."""

from controlplane.diagnosis.citing import moved, stands
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.moving import WORK
from controlplane.diagnosis.views.no_token import cite_no_token
from controlplane.diagnosis.views.told import told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

LEAST_SECONDS = 20.0
"""Two statistics lines of a log, or a dozen scrapes."""
_GAUGES = (Signal.RUNNING, Signal.WAITING, Signal.KV_USAGE)
ENGINE_SOURCES = (SourceKind.METRICS, SourceKind.PROMETHEUS, SourceKind.LOG)


def standing(window: Window) -> list[Series]:
    """Gauges of the engine that were read twice at least and never changed."""
    found = [
        series
        for signal in _GAUGES
        for series in window.all_series(signal)
        if series.origin.kind in ENGINE_SOURCES
    ]
    if any(not series.is_constant for series in found if len(series.readings) > 1):
        return []
    return [
        series for series in found if series.is_constant and series.span_seconds >= LEAST_SECONDS
    ]


def cite_beside(argument: Argument, window: Window) -> None:
    """What else speaks for an engine that is idle or well."""
    for fact in told_all(
        window, r"\bgpu\b.*(util|busy|percent|power)|cancel|abort|stopped|ended|requests last"
    ):
        argument.fact(fact)


def cite_counters(argument: Argument, now: Activity) -> None:
    """What work would move."""
    for signal in WORK:
        series = now.window.find(signal)
        if series is not None and len(series.readings) > 1:
            argument.says(stands(series) if series.is_constant else moved(series))
    if now.window.find(Signal.GENERATION_TOKENS) is None:
        cite_no_token(argument, now.decode)
