"""A start that went as a start goes: it came up soon, and no stage took longer than it may."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.life.stages import start_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_SOON_SECONDS = 120.0
"""Below two minutes a start is what it is."""
_LEAST_STAGES = 2
_KEPT = re.compile(r"from the cache|loaded from cache|cache hit|reading .*cache", re.IGNORECASE)


def came_up_in_time(argument: Argument, window: Window) -> bool:
    """The log tells its stages and that it is ready, and nothing has been asked of it since."""
    start, ready = start_of(window), window.last_event(LogKind.READY)
    if start is None or ready is None or not start.is_up or _has_worked(window):
        return False
    is_in_time = all(stage.seconds <= stage.usual_seconds for stage in start.stages)
    if start.total_seconds > _SOON_SECONDS or not is_in_time or len(start.stages) < _LEAST_STAGES:
        return False
    argument.says(f"ready after {number(start.total_seconds)} s: {start.total_says}")
    for stage in start.stages:
        argument.says(stage.says)
    for event in window.events_of(LogKind.COMPILED_PART):
        if _KEPT.search(event.line):
            argument.says(f"what was compiled before is used: {event.line.strip()[:160]}")
    argument.against("startup.slow: no stage takes longer than it may")
    return True


def _has_worked(window: Window) -> bool:
    """What is asked about a busy engine is not its start."""
    signals = (Signal.GENERATION_RATE, Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS)
    return any(series.max > 0 for signal in signals for series in window.all_series(signal))
