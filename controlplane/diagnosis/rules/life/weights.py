"""How much there is to load at a start, and how fast it came."""

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.life.stages import Stage
from controlplane.diagnosis.views.told import number_of, told_all
from controlplane.diagnosis.window import Window

_FAST_READ = 1024.0**3
"""Bytes a second: a local disk. Weights that come so fast take long because they are many."""


def is_fast(window: Window, stage: Stage) -> bool:
    """As fast as a disk gives it: there is much of it."""
    if stage.name != "loading weights" or stage.seconds <= 0:
        return False
    return size_of_weights(window) * _done(window) / stage.seconds >= _FAST_READ


def size_of_weights(window: Window) -> float:
    """Bytes of the weights; 0 where nobody says."""
    sizes = [
        value
        for fact in told_all(
            window, r"(weights|checkpoint|model).*(on disk|size|gib|gb|bytes|total)"
        )
        if (value := number_of(fact)) is not None and value > 1024.0**2
    ]
    loaded = [event.fields.get("bytes", 0.0) for event in window.events_of(LogKind.WEIGHTS_LOADED)]
    return max((*sizes, *loaded), default=0.0)


def _done(window: Window) -> float:
    """What share of the weights is in."""
    last = window.last_event(LogKind.WEIGHTS_LOADING)
    if last is None or window.events_of(LogKind.WEIGHTS_LOADED) or not last.fields.get("total"):
        return 1.0
    return last.fields.get("done", 0.0) / last.fields["total"]
