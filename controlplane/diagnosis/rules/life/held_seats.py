"""Seats that are held by what nobody waits for."""

from controlplane.diagnosis.citing import course, moved, number, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.rules.life.callers_gone import callers_gone
from controlplane.diagnosis.some_callers import is_of_some
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import course_of, from_on, stretch_while
from controlplane.diagnosis.views.told import (
    number_of,
    share_of,
    told_number,
)
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal

LEAST_SECONDS = 30.0
"""A cancel reaches a scheduler within a step or two; transfers between workers take seconds."""
_LEAST_EXCESS = 0.2
"""Of what is in flight: gauges and gateway are read at different moments."""
_TOKENS = (
    r"tokens? (decoded|generated|predicted|produced)|(generated|decoded|output) tokens|n decoded"
)
_TOKENS_LATELY = r"tokens?\b.*\b(last|past|lately)\b|\b(last|past)\b.*\btokens?\b"
_BUSY = 0.5
"""Of the device's time: it computes, and not only now and then."""


def held_seats(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """The engine has more in its batch and queue than anybody waits for, and is alive."""
    if truth.in_flight is None or now.running is None or is_of_some(truth.in_flight):
        return None
    held = _held(now, truth.in_flight)
    wanted = truth.in_flight.last.value
    if held is None or held.last.value - wanted < (_LEAST_EXCESS * wanted or 1):
        return None
    works = _works(now, held)
    grows = held.change > 0
    if not works and not grows:
        return None
    argument.series(now.running, "in the batch")
    if now.waiting is not None and now.waiting.last.value:
        argument.series(now.waiting, "in the queue")
    for sentence in truth.says:
        argument.says(f"{sentence}: {number(held.last.value - wanted)} more than anybody waits for")
    for sentence in works:
        argument.says(sentence)
    unfinished = _unfinished(argument, now, held)
    gone = callers_gone(argument, now)
    has_orphans = bool(now.window.events_of(LogKind.OUTPUT_WITHOUT_OWNER))
    is_proven = has_orphans or gone or (unfinished and not wanted)
    if held.span_seconds < LEAST_SECONDS and not has_orphans:
        argument.need("the same figures a minute later")
        return Confidence.POSSIBLE
    if (wanted or _finishes(now) or (not grows and _are_glimpses(now, held))) and not is_proven:
        argument.need("callers that do not pass the gateway", "requests whose callers left")
        return Confidence.POSSIBLE
    return Confidence.CERTAIN if is_proven else Confidence.LIKELY


def _finishes(now: Activity) -> bool:
    """Requests end all along: whoever reads them may have come another way."""
    return bool(now.finished is not None and now.finished.increase)


def _are_glimpses(now: Activity, held: Series) -> bool:
    """So many requests came meanwhile that each look may have met another one, which was gone when
    the gateways reported: regular traffic keeps step with whoever looks regularly."""
    arrived = from_on(now.window.find(Signal.GATEWAY_ARRIVED), held.first.at)
    return arrived is not None and (arrived.increase or 0) >= len(held.readings)


def _held(now: Activity, in_flight: Series) -> Series | None:
    """Batch and queue together, since when there was more than is wanted now."""
    running, waiting = now.running, now.waiting
    if running is None:
        return None
    readings = []
    for reading in running.readings:
        queued = None if waiting is None else waiting.at(reading.at)
        value = reading.value + (0.0 if queued is None else queued.value)
        readings.append(Reading(reading.at, value, number(value)))
    both = Series(signal=running.signal, origin=running.origin, readings=tuple(readings))
    return stretch_while(both, lambda value: value > in_flight.last.value)


def _works(now: Activity, running: Series) -> list[str]:
    """That the batch is computed: gauges that are merely frozen show none of it."""
    found = []
    tokens = from_on(now.window.find(Signal.GENERATION_TOKENS), running.first.at)
    counted = None if tokens is None else tokens.increase
    if tokens is not None and counted:
        found.append(f"{moved(tokens)}: it is computed")
    elif counted is None and now.decode is not None and _is_live(now.decode):
        found.append(f"{course(now.decode)}: it is computed")
    told_tokens = course_of(now.window, Signal.GENERATION_TOKENS, _TOKENS)
    if tokens is None and told_tokens is not None and (told_tokens.increase or 0) > 0:
        found.append(f"{moved(told_tokens)}: it is computed")
    lately = told_number(now.window, _TOKENS_LATELY)
    if tokens is None and (number_of(lately) or 0.0) > 0 and lately is not None:
        found.append(f"{lately.key} {lately.raw}: it is computed")
    steps = from_on(now.window.find(Signal.STEPS), running.first.at)
    if steps is not None and (steps.increase or 0) > 0:
        found.append(f"{moved(steps)}: it is computed")
    busy = told_number(now.window, r"(gpu|device|accelerator) (util\w*|busy|usage)")
    share = share_of(busy)
    if busy is not None and share is not None and share >= _BUSY:
        found.append(f"{busy.key} {busy.raw}")
    return found


def _is_live(rate: Series) -> bool:
    """A speed that is read again and again and is the same to the digit may be an old one."""
    return rate.last.value > 0 and not rate.is_constant


def _unfinished(argument: Argument, now: Activity, running: Series) -> bool:
    """Nothing ended meanwhile."""
    for signal in (Signal.FINISHED, Signal.RECEIVED, Signal.ABORTED):
        series = from_on(now.window.find(signal), running.first.at)
        if series is not None and len(series.readings) > 1:
            argument.says(stands(series) if series.is_constant else moved(series))
    finished = now.window.find(Signal.FINISHED) or now.window.find(Signal.RECEIVED)
    return finished is not None and finished.is_constant
