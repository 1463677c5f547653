"""The engine works, as is seen from outside, and its own figures show none of it."""

from controlplane.diagnosis.citing import course, moved, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.telemetry.standing import (
    ENGINE_SOURCES,
    LEAST_SECONDS,
    cite_beside,
    standing,
)
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all, told_number
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal, SignalKind

_OUTSIDE = (
    Signal.GATEWAY_OUTPUT_TOKENS,
    Signal.GATEWAY_ENDED,
    Signal.GATEWAY_PROMPT_TOKENS,
)


def idle_in_vain(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """All that the engine exports stands still while its answers reach callers."""
    engine = [
        series
        for series in now.window.series
        if series.origin.kind in ENGINE_SOURCES and not series.signal.value.startswith("gateway")
    ]
    counters = [
        series
        for series in engine
        if series.signal.terms.kind is SignalKind.COUNTER and len(series.readings) > 1
    ]
    if not counters or any(series.increase for series in counters):
        return None
    if any(len(series.readings) > 1 and not series.is_constant for series in engine):
        return None
    first, last = min(each.first.at for each in counters), max(each.last.at for each in counters)
    span, outside = last - first, _outside(now, first, last)
    if span < LEAST_SECONDS or not outside:
        return None
    for series in counters[:3]:
        argument.says(f"{stands(series)}: to the digit")
    for series in standing(now.window):
        argument.says(stands(series))
    for sentence in (*outside, *truth.says):
        argument.says(sentence)
    argument.against("engine.hung: answers reach their callers meanwhile")
    return Confidence.CERTAIN


def _outside(now: Activity, start: float, end: float) -> list[str]:
    """That tokens or answers came out between the first page and the last one, counted beside the
    engine. What began just before the last page may be on the next one."""
    found = []
    for signal in _OUTSIDE:
        whole = now.window.find(signal)
        series = None if whole is None else whole.between(start, end)
        if series is None or not (series.increase or 0) > 0:
            continue
        grew_at = next(each.at for each in series.readings if each.value > series.first.value)
        if len(series.readings) > _FEW_READINGS and end - grew_at < _SHOWS_SOON_SECONDS:
            continue
        found.append(moved(series))
    speed = told_number(
        now.window,
        r"(client|gateway|proxy|router|measured|observed|real|true)\b.*(tok|token|answer|request|"
        r"completion)",
        without=r"in ?flight|timeout|limit|wait|ttft|latency",
    )
    value = number_of(speed)
    if speed is not None and value is not None and value > 0:
        found.append(f"{speed.key} {speed.raw}")
    return found


_FEW_READINGS = 2
"""They do not tell when it grew between them."""
_SHOWS_SOON_SECONDS = 10.0
"""Two scrapes: some servers count a request when it ends."""


def zero_for_a_while(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Gauges that say nothing runs at a moment at which answers come out, and catch up later."""
    running, inside = now.running, truth.in_flight
    if running is None or inside is None:
        return None
    for reading in inside.readings:
        shown, queued = running.at(reading.at), now.waiting and now.waiting.at(reading.at)
        if not reading.value or shown is None or shown.value or (queued and queued.value):
            continue
        came = [
            fact
            for fact in told_all(
                now.window, r"(token|chunk|answer|byte)s?\b.*\b(received|seen|out)\b"
            )
            if fact.at == reading.at and number_of(fact)
        ]
        zeros = _zero_since(running, shown.at)
        if not came or reading.at - zeros < _LEAST_ZERO:
            continue
        argument.says(f"{course(running)}: nothing runs as of {shown.at:g} s")
        argument.says(f"{inside.origin.name} {reading.raw} at {reading.at:g} s")
        for fact in came:
            argument.fact(fact, "so the engine works")
        cite_beside(argument, now.window)
        argument.against("queue.blocked: tokens reach their callers meanwhile")
        return Confidence.CERTAIN
    return None


_LEAST_ZERO = 10.0
"""Seconds. A gauge is a step or a scrape old anyway."""


def _zero_since(series: Series, at: float) -> float:
    """Since when it has had the value that it has at `at`."""
    begun = at
    for reading in reversed(series.readings):
        if reading.at > at:
            continue
        if reading.value:
            break
        begun = reading.at
    return begun
