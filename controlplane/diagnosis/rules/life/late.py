"""capacity.late: replicas were added, and ready when the load that they were for had passed or had
done its harm; or a scaler that does not see the load adds none."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.looks import surest_of
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.blind_scaler import judge_blind_scaler
from controlplane.diagnosis.rules.life.late_growth import (
    Growth,
    burst_of,
    cite_delays,
    delays_of,
    growth_of,
    replicas_of,
)
from controlplane.diagnosis.rules.life.late_load import is_harmed, is_over
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import told, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.places import MOST_PLACES

_LEAST_SECONDS = 20.0
"""Until a replica is ready: below it any queue waits it out."""


def _judge_growth(window: Window) -> Verdict | None:
    now = activity_of(window)
    argument = Argument(window)
    growth = growth_of(argument, window)
    if growth is None or not growth.delay_seconds or growth.delay_seconds < _LEAST_SECONDS:
        return None
    over = is_over(argument, now, growth)
    harmed = is_harmed(argument, now)
    argument.fact(told(window, MOST_PLACES), "so many were allowed")
    for fact in told_all(window, r"client timeout|patience|deadline"):
        argument.fact(fact)
    cite_delays(argument, window)
    argument.against("queue.overload: the capacity was decided on, and allowed")
    argument.against("startup.slow: a start of that length is late for this load, not too long")
    if harmed and _had_nobody(window):
        argument.says("before it nobody was there to answer at all")
        over = True
    return (
        argument.verdict(found)
        if (found := _sure(argument, window, growth, over, harmed))
        else None
    )


def _sure(
    argument: Argument, window: Window, growth: Growth, over: bool, harmed: bool
) -> Confidence | None:
    if over and harmed:
        return Confidence.LIKELY
    if over and burst_of(window) is not None and delays_of(window):
        return Confidence.CERTAIN
    if over or (harmed and growth.ready_at is not None):
        argument.need("arrivals over time", "when the new replica took its first request")
        return Confidence.POSSIBLE
    return None


def _had_nobody(window: Window) -> bool:
    ready = replicas_of(window)
    return ready is not None and ready.first.value == 0 and ready.last.value > 0


CAPACITY_LATE = Rule(
    id="capacity-late",
    mechanism=Mechanism.CAPACITY_LATE,
    judge=surest_of(_judge_growth, judge_blind_scaler),
    needs=(
        "when replicas were decided on and when they were ready",
        "arrivals over time",
    ),
    told_apart=(
        "From queue.overload by capacity that came, and was allowed; from startup.slow by a start "
        "that is usual and too long for this load; from telemetry.missing by a scaler that decided."
    ),
    remedy=(
        "Keep a warm or sleeping spare, scale on arrivals instead of on the queue, and shed load "
        "until the new replica is there."
    ),
    hides=(
        "A larger minimum pays for the spare all day; shedding makes the queue short and the "
        "scaler blind to what is missing."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.QUEUE_BURST_DRAINING,
            Mechanism.STARTUP_SLOW,
            Mechanism.BATCH_UNDERFILLED,
            Mechanism.QUEUE_BLOCKED,
        }
    ),
)
