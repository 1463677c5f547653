"""How fast time's work gets done while a replica is slowed or stands still.

Work of w seconds takes w while nothing is wrong. Where the pace is p, a second does p seconds
of work: a step that a stall begins or ends in takes as long as its parts do. Pace 0 is a hang;
one that never ends makes the work last for ever.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel


@dataclass(frozen=True, slots=True)
class Slowdown:
    """The pace in [start, end); overlapping ones multiply."""

    start: float
    end: float
    pace: float


class PaceCurve:
    """The pace at any time."""

    def __init__(self, slowdowns: Iterable[Slowdown]) -> None:
        spans = [span for span in slowdowns if span.pace != 1.0]
        times = {time for span in spans for time in (span.start, span.end)}
        self._changes = sorted(time for time in times if time < math.inf)
        self._paces = [
            math.prod(span.pace for span in spans if span.start <= change < span.end)
            for change in self._changes
        ]

    def time_for(self, work: float, now: float) -> float:
        """Seconds that `work` seconds of work take from `now` on; infinity when never done."""
        pace, at, left = 1.0, now, work
        for change, following in zip(self._changes, self._paces, strict=True):
            if change > at:
                if pace > 0 and left <= (change - at) * pace:
                    break
                left -= (change - at) * pace
                at = change
            pace = following
        if pace == 0:
            return math.inf
        # Untouched work must come out to the last digit.
        return work if at == now and pace == 1.0 else (at - now) + left / pace


class PacedCost:
    """A CostModel whose steps take as long as the pace of their moment allows."""

    def __init__(self, inner: CostModel, curve: PaceCurve, clock: Callable[[], float]) -> None:
        self.inner = inner
        self._curve = curve
        self._clock = clock

    def step_time(self, plan: StepPlan) -> float:
        """Infinity for a step that never ends."""
        return self._curve.time_for(self.inner.step_time(plan), self._clock())
