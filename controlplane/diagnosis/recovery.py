"""That an engine was started anew after a failure, and since when it serves again."""

from collections.abc import Iterator
from itertools import pairwise

from controlplane.diagnosis.failed_replica import ANSWERS, STARTS
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_SPEEDS = (Signal.GENERATION_RATE, Signal.PROMPT_RATE)
_COUNTED = (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS, Signal.FINISHED)


def serving_since(window: Window, failed_at: float) -> float | None:
    """The first work that is seen after the first start after `failed_at`, on the window's clock;
    None where either was not seen. `window` is of one replica."""
    started_at = min(_starts(window, failed_at), default=None)
    return None if started_at is None else min(_works(window, started_at), default=None)


def _starts(window: Window, after: float) -> Iterator[float]:
    """Told by its log, or by counters that begin anew."""
    for event in window.events_of(*STARTS):
        if event.at is not None and event.at > after:
            yield event.at
    for signal in _COUNTED:
        for series in window.all_series(signal):
            for before, now in pairwise(series.readings):
                if now.at > after and now.value < before.value:
                    yield now.at


def _works(window: Window, after: float) -> Iterator[float]:
    for event in window.events_of(*ANSWERS):
        if event.at is not None and event.at >= after:
            yield event.at
    for signal in _SPEEDS:
        for series in window.all_series(signal):
            yield from (each.at for each in series.readings if each.at >= after and each.value > 0)
    for signal in _COUNTED:
        for series in window.all_series(signal):
            for before, now in pairwise(series.readings):
                if before.at >= after and now.value > before.value:
                    yield now.at
