"""An engine that ended all that it took, and stands empty since nobody asks any more.

    running   6  6  5  3  0  0  0  0  0
    counters  +  +  +  +  +  .  .  .  .     . stands still
                        |  |- it rests
                        |- answers came up to the moment at which it was empty

One whose callers gave up, or whose process lost its requests, is empty as well, and had stood
before: its last answers are of long ago, or many were aborted, which is a symptom.
"""

from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import stretch_while
from dataplane.engine_metrics.signal import Signal

_LEAST_SECONDS = 3.0
_LEAST_READINGS = 3
"""One is a moment between two requests, and a counter may be read a scrape after its gauge."""
_TO_THE_END_SECONDS = 5.0
"""So long before it was empty something came still."""
_HELD = 0.02
"""Of the cache: blocks of nobody would be held in vain."""


def came_to_rest(argument: Argument, now: Activity) -> bool:
    """On a metrics page: requests ran, came to their ends, and nothing is left of them."""
    rest = _rest(now)
    if rest is None or not _came_up_to(now, rest):
        return False
    argument.series(now.running, "what ran has ended, and nothing is asked of it since")
    for signal in (Signal.GENERATION_TOKENS, Signal.FINISHED):
        argument.series(now.window.find(signal))
    return True


def _rest(now: Activity) -> Series | None:
    """The readings at its end in which nothing runs, waits, is held or moves."""
    running = now.running
    rest = stretch_while(running, lambda value: value == 0)
    if running is None or rest is None or running.origin.kind is SourceKind.LOG:
        return None
    if len(rest.readings) < _LEAST_READINGS or rest.span_seconds < _LEAST_SECONDS:
        return None
    if len(rest.readings) == len(running.readings):
        return None
    for series, most in ((now.backlog, 0.0), (now.in_flight, 0.0), (now.kv, _HELD)):
        part = None if series is None else series.between(rest.readings[1].at, float("inf"))
        if part is not None and part.max > most:
            return None
    is_still = now.moves(rest.readings[1].at, now.window.end) is False
    return rest if is_still else None


def _came_up_to(now: Activity, rest: Series) -> bool:
    """Tokens or answers came until it was empty."""
    if now.running is None:
        return False
    busy = [reading.at for reading in now.running.readings if reading.at < rest.first.at]
    start = min(busy[-1], rest.first.at - _TO_THE_END_SECONDS)
    return bool(now.moves(start, rest.readings[1].at))
