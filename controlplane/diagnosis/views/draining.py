"""Whether what waits gets less."""

from dataclasses import dataclass, replace

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import from_on
from controlplane.diagnosis.views.figure import Figure, figure_of
from controlplane.diagnosis.views.told import number_of, told_number
from dataplane.engine_metrics.signal import Signal

_FALLEN_TO = 0.75
"""Of the peak: less than a quarter off is what a queue does by chance."""
_FALLING = 0.97
"""Of the peak, where it is known that nobody comes: then any fall is the way down."""
_HARDLY_ANY = 0.01
_RISE = 0.15
"""Of the peak, that it may rise on its way down."""
_FEWEST_OF_A_WAVE = 6
_LEAST_WAVE = 8.0
_LEAST_WAVE_SECONDS = 8.0
"""From the first that waits until nobody does: any healthy queue that long prompts pass through is
as long for a moment, and nobody calls that a burst."""
_OF_BATCH = 0.5
_LULL = 0.35
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
    arrivals = arrivals_of(now, peak.at)
    is_over = arrivals is not None and arrivals.value <= _HARDLY_ANY * peak.value
    if course.last.value > (_FALLING if is_over else _FALLEN_TO) * peak.value:
        return None
    if rises > _RISE * peak.value or _goes_on_arriving(now, peak.at):
        return None
    return Drain(course=course, in_flight=now.in_flight, arrivals=arrivals)


def _goes_on_arriving(now: Activity, since: float) -> bool:
    """By the gateway's own count as many come as while the queue grew: it falls because callers
    give up, or by chance."""
    arrived = now.window.find(Signal.GATEWAY_ARRIVED)
    if arrived is None or now.backlog is None:
        return False
    grew_from = next((r.at for r in now.backlog.readings if r.value > 0), since)
    before, after = arrived.between(grew_from, since), arrived.between(since, now.window.end)
    paces = [part.per_second if part is not None else None for part in (before, after)]
    if paces[0] is None or paces[1] is None:
        return False
    return paces[1] >= _AS_MANY * paces[0]


_AS_MANY = 0.6


def wave_of(now: Activity) -> Series | None:
    """The queue, where it came and went by itself before: it was as long as the batch and there for
    a while, then nothing waited and little ran."""
    backlog, running = now.backlog, now.running
    if backlog is None or running is None or len(backlog.readings) < _FEWEST_OF_A_WAVE:
        return None
    batch = max(running.max, 1.0)
    was_long, since = False, None
    for reading in backlog.readings[:-1]:
        if reading.value > 0:
            since = reading.at if since is None else since
            was_long = was_long or reading.value >= max(_LEAST_WAVE, _OF_BATCH * batch)
            continue
        lasted = 0.0 if since is None else reading.at - since
        beside = running.at(reading.at)
        is_calm = beside is not None and beside.value <= _LULL * batch
        if was_long and lasted >= _LEAST_WAVE_SECONDS and is_calm:
            return backlog
        if lasted < _LEAST_WAVE_SECONDS or is_calm:
            was_long, since = False, None
    return None


def arrivals_of(now: Activity, since: float | None = None) -> Figure | None:
    """A second or in all, within the window or from `since` on; what matters is whether it is
    zero."""
    for signal in (Signal.GATEWAY_ARRIVED, Signal.RECEIVED):
        received = from_on(now.window.find(signal), since) if since is not None else None
        received = received or now.window.find(signal)
        if received is not None and (increase := received.increase) is not None:
            name = received.origin.name
            return Figure(increase, f"{name} {received.first.raw} -> {received.last.raw}")
    fact = told_number(now.window, _ARRIVALS, without=r"token|prompt|time|retr")
    if fact is None:
        return None
    return figure_of(fact, number_of(fact))
