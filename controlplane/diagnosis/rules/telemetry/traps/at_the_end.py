"""A speed that is worked out from tokens which are counted when their request ends: zero until
then, whatever is being written."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.counted_at_end import is_counted_at_end
from controlplane.diagnosis.views.told import number_of, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 10.0
_CAME = (
    r"(?=.*\b(tokens?|chunks?)\b)"
    r"(?=.*\b(stream\w*|output|out|sent|delivered|received|generated|written|emitted|seen)\b)"
)
_NOT_CAME = (
    r"\b(prompt|input|limit|max|each|mean|p50|p9\d|longest|expected|before|baseline|dashboard"
    r"|panel|gauge|ttft|since)\b"
)


def speed_of_ended_ones(argument: Argument, now: Activity) -> Confidence | None:
    """The gauge is zero, steps are counted all the time, and callers get tokens meanwhile."""
    window, running = now.window, now.running
    speed, steps = window.find(Signal.GENERATION_RATE), window.find(Signal.STEPS)
    counted = window.find(Signal.GENERATION_TOKENS)
    if speed is None or steps is None or running is None or running.min <= 0:
        return None
    if speed.max > 0 or len(speed.readings) < 2 or speed.span_seconds < _LEAST_SECONDS:
        return None
    if not _counts_at_the_end(counted, window) or not (steps.increase or 0) > 0:
        return None
    came = _came(window)
    if not came:
        return None
    argument.series(speed, "shows nothing")
    argument.series(steps, f"{number(round(steps.per_second or 0.0, 1))} a second: it works")
    argument.series(counted, "is added to when a request ends")
    argument.series(running)
    argument.series(now.waiting)
    for fact in came:
        argument.fact(fact, "reach their callers meanwhile")
    argument.against("engine.hung: steps end, and tokens come out")
    argument.against("telemetry.stale: the page's other figures move")
    return Confidence.CERTAIN


def _counts_at_the_end(counted: Series | None, window: Window) -> bool:
    """And none of those that run has ended yet."""
    return counted is not None and is_counted_at_end(counted, window) and not counted.increase


def _came(window: Window) -> list[Fact]:
    return [
        fact for fact in told_all(window, _CAME, without=_NOT_CAME) if (number_of(fact) or 0.0) > 0
    ]
