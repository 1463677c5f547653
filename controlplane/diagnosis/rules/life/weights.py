"""How much there is to load at a start, and how fast it came."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.rules.life.stages import Stage
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

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


def cite_reading(argument: Argument, window: Window, stage: Stage) -> bool:
    """That a stage in which weights are read without a line of their own takes what reading them
    does, by their size and by how fast they came."""
    size, read = size_of_weights(window), told_number(window, _READ, without=r"write|expected|spec")
    pace = number_of(read)
    is_silent = not window.events_of(LogKind.WEIGHTS_LOADED, LogKind.WEIGHTS_LOADING)
    if not size or read is None or not pace or read.unit is not Unit.BYTES_PER_SECOND:
        return False
    took = size / pace
    if not is_silent or not _ABOUT[0] * stage.seconds <= took <= _ABOUT[1] * stage.seconds:
        return False
    argument.says(f"{number(size / 1024**3)} GiB at {read.raw} = {number(round(took))} s")
    return True


_READ = r"\b(read|load|disk|storage|nfs|fs|volume|network|download|throughput|bandwidth)\b"
_ABOUT = (0.7, 1.3)
"""Of the stage: files are read once, and a little is done beside it."""
