"""telemetry.stale: what is exported stands still, to the digit, while the truth is another."""

import re

from controlplane.diagnosis.citing import stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.looks import Look, first_of, look_of
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.telemetry.frozen_part import (
    left_by_a_process,
    one_of_several,
    one_that_is_gone,
)
from controlplane.diagnosis.rules.telemetry.old_view import full_by_hearsay, never_fresh, too_old
from controlplane.diagnosis.rules.telemetry.out_of_date import older_than_allowed
from controlplane.diagnosis.rules.telemetry.readers import readers
from controlplane.diagnosis.rules.telemetry.routers_count import counted_by_the_router_alone
from controlplane.diagnosis.rules.telemetry.shown_idle import idle_in_vain, zero_for_a_while
from controlplane.diagnosis.rules.telemetry.standing import (
    cite_beside,
    cite_counters,
    standing,
)
from controlplane.diagnosis.rules.telemetry.two_views import still_and_not_so
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.moving import moves_since
from controlplane.diagnosis.views.page_end import to_last_page
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal

_FORGOTTEN_SECONDS = 300.0
"""A rate of the last batch may stand for a pause between requests."""
_KEPT_SECONDS = 1800.0
"""SGLang leaves its last rate on the page of every idle server. Nobody who reads it has to be told
where somebody kept its course for so long: a watch that goes on by itself keeps ten minutes."""
_READS_RATE = re.compile(r"throughput|tok\w*[ /_]*(per[ _])?s(ec\w*)?\b|speed|rate", re.IGNORECASE)
_RATES = {
    Signal.GENERATION_RATE: Signal.GENERATION_TOKENS,
    Signal.PROMPT_RATE: Signal.PROMPT_TOKENS,
    Signal.ARRIVAL_RATE: Signal.PROMPT_TOKENS,
}


def _busy_in_vain(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Gauges say that there is work, no token comes, and nobody waits or a probe is answered."""
    still = [series for series in standing(now.window) if series.last.value > 0]
    is_busy = any(series.signal in (Signal.RUNNING, Signal.WAITING) for series in still)
    if not is_busy or truth.is_asleep or now.window.events_of(LogKind.NO_PROGRESS):
        return None
    if truth.is_answered is False or truth.is_wanted:
        return None
    start = max(series.first.at for series in still)
    if moves_since(now, start):
        return None
    for series in still:
        argument.says(f"{stands(series)}: to the digit")
    for signal in _RATES:
        rate = now.window.find(signal)
        if rate is not None and rate.is_constant and rate.last.value > 0:
            argument.says(f"{stands(rate)}: to the digit")
    cite_counters(argument, now)
    for sentence in truth.says:
        argument.says(sentence)
    cite_beside(argument, now.window)
    _weigh_waiting(argument, truth)
    argument.against("release.leak: what is held would be computed, or stay after a step")
    if truth.is_answered:
        argument.against("engine.hung: a probe is answered")
        return Confidence.CERTAIN if truth.is_wanted is False else Confidence.LIKELY
    if truth.is_wanted is False:
        argument.against("engine.hung: nobody waits in vain; a probe would prove it")
        argument.need("a one-token probe")
        return Confidence.LIKELY
    argument.need(*truth.needs)
    return Confidence.POSSIBLE


def _weigh_waiting(argument: Argument, truth: Truth) -> None:
    waits = "nobody beside the engine tells of any that wait"
    if truth.is_wanted is False:
        waits = "nobody waits at the gateway"
    argument.against(f"queue.blocked and queue.overload: {waits}")


def _rate_of_nothing(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A rate that keeps its last value: nothing runs, or its own counter does not move."""
    for signal, counter in _RATES.items():
        rate = now.window.find(signal)
        if rate is None or not rate.is_constant or rate.last.value <= 0:
            continue
        if rate.span_seconds < _FORGOTTEN_SECONDS:
            continue
        counted = now.window.find(counter)
        stands_still = counted is not None and counted.is_constant
        idle = now.running is not None and now.running.max == 0
        if not (stands_still or idle):
            continue
        read = [fact for fact in readers(now.window) if _READS_RATE.search(f"{fact.raw}")]
        if not read and rate.span_seconds < _KEPT_SECONDS:
            continue
        for fact in read:
            argument.fact(fact)
        argument.says(f"{stands(rate)}: to the digit")
        cite_counters(argument, now)
        argument.series(now.running, "nothing runs")
        for sentence in truth.says:
            argument.says(sentence)
        cite_beside(argument, now.window)
        argument.against("release.leak: what is computed would be counted")
        return Confidence.CERTAIN if stands_still and idle else Confidence.LIKELY
    return None


_SIDES = (
    _busy_in_vain,
    one_of_several,
    one_that_is_gone,
    left_by_a_process,
    counted_by_the_router_alone,
    _rate_of_nothing,
    idle_in_vain,
    zero_for_a_while,
    never_fresh,
    older_than_allowed,
    full_by_hearsay,
    still_and_not_so,
)


def _to_the_last_page(look: Look) -> Look:
    """`look` at the time in which pages came. One that is not there does not stand still."""
    return lambda window: look(to_last_page(window))


_LOOKS = [_to_the_last_page(look_of(side)) for side in _SIDES]
_OF_AN_OLD_PAGE = _SIDES.index(never_fresh)

STALE = Rule(
    id="telemetry-stale",
    mechanism=Mechanism.TELEMETRY_STALE,
    judge=first_of(
        *_LOOKS[:_OF_AN_OLD_PAGE],
        # What somebody acts upon gets old while no page comes.
        look_of(too_old),
        *_LOOKS[_OF_AN_OLD_PAGE:],
    ),
    needs=(
        "gauges over time",
        "token counters over time",
        "requests in flight at the gateway or a one-token probe",
    ),
    told_apart=(
        "From engine.hung and queue.blocked by nobody waiting and a probe that is answered; from "
        "release.leak by tokens and steps that do not move; from a closed loop, which keeps its "
        "batch and moves its counters."
    ),
    remedy=(
        "Do not route or scale by these gauges until a step has run: send a probe so that they are "
        "set again, and trust counters and the gateway's own count."
    ),
    hides=(
        "A probe sets the gauges and takes the proof away; a restart does the same and also hides "
        "why no step ran."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_BLOCKED,
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.ROUTING_SKEW,
            Mechanism.BATCH_UNDERFILLED,
        }
    ),
)
