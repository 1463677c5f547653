"""How much an engine did between two times, also where it counts tokens when an answer ends.

Between two ends such a counter is a speed. Where too few answers ended for one, steps stand in for
it: each gives every request that runs a token at most, so they, times what ran, compare engines
and times with each other. They are no tokens, and are compared with none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.counted_at_end import between_ends, is_told_by_ends
from controlplane.diagnosis.views.fleet import grown, mean_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_SHARE = 0.5
"""Of the stretch, between its first end and its last: a few early ends say nothing of the rest."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A place, and from when to when it is looked at."""

    made: Series
    """Its generated tokens."""
    beside: Window
    """What else the same place tells, and nothing of others."""
    start: float
    end: float


def stretch_of(made: Series, window: Window, start: float, end: float) -> Stretch:
    """Of the place that counts `made`: whatever has its labels."""
    own = tuple(each for each in window.series if each.labels == made.labels)
    return Stretch(made, replace(window, series=own), start, end)


def works_of(stretches: Sequence[Stretch]) -> tuple[str, list[float]] | None:
    """What each did a second, by one measure for all, and what that counts. None where neither
    tokens nor steps tell it of each of them."""
    for unit, measure in (("tokens", _tokens), ("steps times what runs", _steps)):
        found = [measure(each) for each in stretches]
        known = [each for each in found if each is not None]
        if known and len(known) == len(found):
            return unit, known
    return None


def is_seen_by_ends(stretch: Stretch) -> bool:
    """Whether its tokens tell who ended, and no speed."""
    return is_told_by_ends(stretch.made, stretch.beside)


def _tokens(stretch: Stretch) -> float | None:
    start, end = stretch.start, stretch.end
    if not is_seen_by_ends(stretch):
        return grown(stretch.made, start, end) / (end - start)
    part = stretch.made.between(start, end)
    if part is None or (part.is_constant and stretch.beside.find(Signal.STEPS) is None):
        return None  # long answers, or none: nothing tells them apart
    ended = between_ends(part, stretch.beside)
    if ended is None or ended.span_seconds < _LEAST_SHARE * (end - start):
        return None
    return ended.per_second


def _steps(stretch: Stretch) -> float | None:
    steps = stretch.beside.find(Signal.STEPS)
    running = mean_of(stretch.beside.find(Signal.RUNNING), stretch.start, stretch.end)
    if steps is None or running is None:
        return None
    return grown(steps, stretch.start, stretch.end) / (stretch.end - stretch.start) * running
