"""Many came at once, none follow, and the queue gets shorter by itself."""

from dataclasses import replace

from controlplane.diagnosis.citing import number, seconds
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.draining import Drain, drain_of, wave_of
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_PEAK = 4
"""Fewer come and go in any healthy queue."""
_LEAST_SECONDS = 10.0
_HALF = 0.5
_MOST_TOLD = 3
_READ_FALLING = 4
_NONE = 0.05
"""Of the queue at its peak: who comes later is no part of it."""


def judge(window: Window) -> Verdict | None:
    """LIKELY where the queue falls, work goes on, and no arrivals are known to keep it up."""
    now = activity_of(window)
    drain = drain_of(now)
    wave = wave_of(now)
    if wave is not None and now.is_moving:
        return _of_waves(now, wave)
    if drain is None or drain.course.first.value < _LEAST_PEAK or _is_long_over(drain):
        return None
    moving = now.moves(drain.course.first.at, window.end)
    thrown = preempting(now)
    if moving is False or (thrown is not None and thrown.is_costly):
        return None
    argument = Argument(window)
    _cite(argument, now, drain)
    if thrown is not None:
        argument.against(f"cache.thrash: few preemptions ({thrown.says})")
    forecast = _forecast(drain)
    if _is_sure(now, drain, argument) and moving:
        argument.says(forecast)
        argument.against("queue.overload: a queue that falls is no overload")
        return argument.verdict(Confidence.LIKELY, detail=forecast)
    argument.need("arrivals during the window")
    if moving is None:
        argument.need("generated tokens over time")
    return argument.verdict(Confidence.POSSIBLE, detail=forecast)


def _cite(argument: Argument, now: Activity, drain: Drain) -> None:
    """What falls, and what works meanwhile."""
    argument.series(drain.course, "the queue gets shorter")
    argument.series(drain.in_flight)
    argument.series(now.running)
    argument.series(now.decode, "work goes on")
    argument.series(now.kv)


def _forecast(drain: Drain) -> str:
    """When it is over."""
    if drain.course.last.value <= 0:
        return "the queue is empty again"
    return f"at this rate the queue is empty in {number(round(drain.seconds_left or 0))} s"


def _is_long_over(drain: Drain) -> bool:
    """It was empty before the last reading already, or was read too seldom to see it fall."""
    course = drain.course
    if course.last.value > 0:
        return False
    return len(course.readings) < _READ_FALLING or course.readings[-2].value <= 0


def _of_waves(now: Activity, wave: Series) -> Verdict | None:
    """They come in waves, each of which drains."""
    thrown = preempting(now)
    if thrown is not None and thrown.is_costly:
        return None
    argument = Argument(now.window)
    argument.series(wave, "it came and went by itself")
    waves = _waves(wave)
    argument.says("; ".join(_told(each, wave) for each in waves[-_MOST_TOLD:]))
    argument.series(now.running)
    argument.series(now.in_flight)
    argument.series(now.decode)
    for signal in (Signal.GATEWAY_ARRIVED, Signal.RECEIVED):
        argument.series(now.window.find(signal))
    argument.against("queue.overload: between the waves nothing waits and little runs")
    detail = "requests come in waves"
    if len(waves) == 1 and waves[0].last.at < wave.last.at:
        ago = seconds(wave.last.at - waves[0].last.at)
        detail = f"one wave, over {ago} s before the end of what was seen"
    return argument.verdict(Confidence.LIKELY, detail=detail)


def _waves(queue: Series) -> list[Series]:
    """The stretches in which anybody waited."""
    found: list[list[Reading]] = []
    waited = False
    for reading in queue.readings:
        if reading.value > 0:
            found = found if waited else [*found, []]
            found[-1].append(reading)
        waited = reading.value > 0
    return [replace(queue, readings=tuple(each)) for each in found]


def _told(wave: Series, queue: Series) -> str:
    peak = max(wave.readings, key=lambda reading: reading.value)
    ago = seconds(queue.last.at - wave.first.at)
    lasted = seconds(wave.span_seconds)
    return f"up to {peak.raw} waited for {lasted} s, from {ago} s before the end on"


def _is_sure(now: Activity, drain: Drain, argument: Argument) -> bool:
    if drain.arrivals is not None and drain.arrivals.value <= _NONE * drain.course.first.value:
        argument.says(f"no arrivals ({drain.arrivals.says})")
        return True
    if drain.course.span_seconds < _LEAST_SECONDS:
        return False
    inside = drain.in_flight
    if inside is not None and len(inside.readings) > 1:
        return inside.change < 0
    fallen_by = 1 - drain.course.last.value / drain.course.first.value
    return len(drain.course.readings) > 2 and fallen_by >= _HALF


BURST_DRAINING = Rule(
    id="queue-burst-draining",
    mechanism=Mechanism.QUEUE_BURST_DRAINING,
    judge=judge,
    needs=("requests waiting over time", "arrivals or requests in flight over time"),
    told_apart="From overload by a queue and in-flight count that fall while nothing arrives, from "
    "a blocked scheduler by tokens that come.",
    remedy="None is needed: forecast the end from the rate at which it drains.",
    hides="A replica added for it is ready after it is over; if bursts return, smooth them at the "
    "sender or at admission.",
)
