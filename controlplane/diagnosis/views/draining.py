"""Whether what waits gets less."""

from dataclasses import dataclass, replace

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.figure import Figure, figure_of
from controlplane.diagnosis.views.told import number_of, told_number

_FALLEN_TO = 0.75
"""Of the peak: less than a quarter off is what a queue does by chance."""
_RISE = 0.15
"""Of the peak, that it may rise on its way down."""
_ARRIVALS = (
    r"arriv(als|ed)|new requests|requests per s|incoming|offered|(submitted|sent|added|came)\b.*"
    r"\b(after|since|later|meanwhile)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A queue on its way down, from its peak on."""

    course: Series
    in_flight: Series | None
    arrivals: Figure | None
    """Zero where it is known that none come."""

    @property
    def seconds_left(self) -> float | None:
        """At this rate."""
        gone = self.course.first.value - self.course.last.value
        if self.course.span_seconds <= 0 or gone <= 0:
            return None
        return self.course.last.value * self.course.span_seconds / gone


def drain_of(now: Activity) -> Drain | None:
    """None where the queue does not get less, or was read once."""
    backlog = now.backlog
    if backlog is None or len(backlog.readings) < 2:
        return None
    values = backlog.values
    place = len(values) - 1 - values[::-1].index(max(values))
    peak = backlog.readings[place]
    if len(values) - place < 2 or peak.value <= 0:
        return None
    course = replace(backlog, readings=backlog.readings[place:])
    rises = max(
        after - before for before, after in zip(course.values, course.values[1:], strict=False)
    )
    if course.last.value > _FALLEN_TO * peak.value or rises > _RISE * peak.value:
        return None
    return Drain(course=course, in_flight=now.in_flight, arrivals=arrivals_of(now))


def arrivals_of(now: Activity) -> Figure | None:
    """A second or in all, within the window: what matters is whether it is zero."""
    received = now.window.find(Signal.RECEIVED)
    if received is not None and (increase := received.increase) is not None:
        name = received.origin.name
        return Figure(increase, f"{name} {received.first.raw} -> {received.last.raw}")
    fact = told_number(now.window, _ARRIVALS, without=r"token|prompt|time|retr")
    if fact is None:
        return None
    return figure_of(fact, number_of(fact))
