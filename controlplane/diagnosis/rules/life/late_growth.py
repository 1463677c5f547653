"""When more replicas were decided on, and when they were there."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.views.told import number_of, says_no, told, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.places import PLACES
from dataplane.engine_metrics.signal import Signal, Unit

_READY = (
    rf"{PLACES}( \w+)? (ready|up|running|available|serving|awake)"
    rf"|^(\w+ )?{PLACES}( now| count| total)?$|(ready|running|available|healthy) {PLACES}"
)
_NOT_COUNTED = r"desired|wanted|target|planned|max|min|limit|lost|\bids?\b|\bnames?\b|hash"
_WANTED = (
    rf"{PLACES}( \w+)? (desired|wanted|target)|desired {PLACES}"
    r"|(hpa|autoscaler|keda|scaler) (desired|target|wants)"
)
_DECIDED = (
    r"scal(e|ed|es|ing)[ -]?(up|out|from)|upscal|autoscal|\bhpa\b|\bkeda\b"
    r"|\b(nodes?|pods?|replicas?|instances?|gpus?)\b.*\b(requested|added|launched|provision\w*)\b"
    r"|\b(replicas?|pods?|instances?|workers?|desired)\b.*\d+ ?(->|to|=>) ?\d+"
)
_DECIDED_LINE = r"upscaling|scal(ed|ing) (up|out)|SuccessfulRescale|New size: \d+"
_DELAY = (
    r"(replica|pod|worker|instance|node|start|init|cold start|warm start|scale( out| up)?|upscale"
    r"|boot|provision|image|load|new)\b.*"
    r"\b(wake|ready|init\w*|start\w*|delay|took|until|time|after|decision|pull)"
    r"|ready (after|in)|cold start|time to ready|reaction|stabili[sz]ation|cooldown|poll"
    r"|(model|weights) load|container start|\bto (be )?ready\b|\bjoin"
)
_NO_DELAY = r"ttft|client|timeout|burst|spike|last|ago|queue|wait|usual|before|expected|per "
_BURST = (
    r"(burst|spike|peak|surge|wave|rush|load)( \w+)* (lasts?|lasted|length|duration|took|over|for)"
    r"|^(burst|spike|surge|peak|wave|rush)( s| seconds)?$"
)
_DECIDED_AT = r"(trigger|scal|decision|decided|hpa|keda|upscale|alert)\w*( \w+)* at( s)?$"
_READY_AT = rf"({PLACES}|new|capacity)( \w+)* (ready|up|serving|available)( \w+)* at( s)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """Replicas that were added."""

    decided_at: float | None
    ready_at: float | None
    delay_seconds: float | None
    is_from_zero: bool = False
    """Nobody was there before."""


def growth_of(argument: Argument, window: Window) -> Growth | None:
    """None where nothing says that more were added, or how long that took."""
    ready = replicas_of(window)
    decided = _decided(argument, window)
    ready_at = _rise(ready) if ready is not None else None
    if ready is not None:
        argument.series(ready)
    wanted = course_of(window, Signal.REPLICAS, _WANTED)
    if wanted is not None:
        argument.series(wanted)
        decided = decided if decided is not None else _rise(wanted)
    decided = decided if decided is not None else _moment(argument, window, _DECIDED_AT)
    if ready_at is None:
        ready_at = _moment(argument, window, _READY_AT)
    if ready_at is None:
        ready_at = _complete(window, ready)
    for change in window.changes_with(rf"{PLACES}\b.*\b(ready|up|joined|available|serving)\b"):
        argument.change(change)
        ready_at = change.at if ready_at is None else ready_at
    if ready_at is None:
        began = window.last_event(LogKind.READY)
        ready_at = None if began is None or decided is None else began.at
    told_delay, zero = _told_delay(argument, window), _from_zero(argument, window)
    if decided is None and ready_at is None and not (told_delay and (burst_of(window) or zero)):
        return None
    if decided is not None and ready_at is not None and ready_at > decided:
        argument.says(f"decided at {decided:g} s, ready at {ready_at:g} s")
        told_delay = ready_at - decided
    elif ready_at is not None and ready is not None and told_delay is None:
        told_delay = ready_at - ready.first.at
    return Growth(
        decided_at=decided, ready_at=ready_at, delay_seconds=told_delay, is_from_zero=zero
    )


def replicas_of(window: Window) -> Series | None:
    """How many there are."""
    return course_of(window, Signal.REPLICAS, _READY, without=_NOT_COUNTED)


def _moment(argument: Argument, window: Window, pattern: str) -> float | None:
    """A time that somebody wrote down: `pod_ready_at_s: 410`."""
    fact = told_number(window, pattern)
    value = number_of(fact)
    if fact is None or value is None or fact.unit is not Unit.SECONDS:
        return None
    argument.fact(fact)
    return value


def _decided(argument: Argument, window: Window) -> float | None:
    moments: list[float] = []
    for change in window.changes_with(_DECIDED):
        argument.change(change)
        moments.append(change.at)
    for line in window.lines_with(_DECIDED_LINE)[:2]:
        argument.says(" ".join(line.split())[:220])
    moments += [event.at for event in _scaled_up(window) if event.at is not None]
    return moments[0] if moments else None


def _scaled_up(window: Window) -> list[LogEvent]:
    return [
        event
        for event in window.events_of(LogKind.SCALED)
        if "to" in event.fields and event.fields["to"] > event.fields.get("from", 0.0)
    ]


def _complete(window: Window, ready: Series | None) -> float | None:
    """When as many as a log says are wanted were first seen."""
    wanted = [event.fields["to"] for event in _scaled_up(window)]
    if not wanted or ready is None:
        return None
    return next((each.at for each in ready.readings if each.value >= wanted[-1]), None)


def _rise(series: Series) -> float | None:
    """When it was first more than before."""
    first = series.first.value
    return next((each.at for each in series.readings if each.value > first), None)


def _told_delay(argument: Argument, window: Window) -> float | None:
    """The longest of what was told of it."""
    delays = delays_of(window)
    for fact in delays:
        argument.fact(fact)
    return max((fact.value or 0.0 for fact in delays), default=None)


def delays_of(window: Window) -> list[Fact]:
    """How long parts of it take."""
    return [
        fact
        for fact in told_all(window, _DELAY, without=_NO_DELAY)
        if fact.unit is Unit.SECONDS and fact.value is not None
    ]


def burst_of(window: Window) -> Fact | None:
    """How long the load lasts."""
    fact = told_number(window, _BURST)
    return fact if fact is not None and fact.unit is Unit.SECONDS else None


def _from_zero(argument: Argument, window: Window) -> bool:
    """The last replica goes when nobody asks for it."""
    zero = told(window, r"scale(d)? to zero|from zero|idle scale")
    least = told_number(window, rf"\b(min(imum)?|least) {PLACES}|{PLACES} (min(imum)?|least)\b")
    if zero is not None and not says_no(zero):
        argument.fact(zero)
        return True
    if least is not None and number_of(least) == 0:
        argument.fact(least)
        return True
    return False


def cite_delays(argument: Argument, window: Window) -> None:
    """Settings that make it late."""
    for fact in window.facts:
        if re.search(_DELAYS, fact.key, re.IGNORECASE):
            argument.fact(fact)


_DELAYS = r"upscale|stabili[sz]ation|cooldown|poll|decision|interval"
