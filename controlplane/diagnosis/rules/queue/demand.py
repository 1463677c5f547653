"""Whether more arrives than is done, and how long it waits for that."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.figure import Figure
from controlplane.diagnosis.views.means import reckoned
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from dataplane.engine_metrics.signal import Signal, Unit

_LONG_WAIT_SECONDS = 5.0
"""A mean or median in the queue that no burst of some steps explains."""
PLATEAU = 0.1
"""So much of its mean may a batch vary and still stand at a limit."""


def long_wait(now: Activity) -> Figure | None:
    """A mean or median wait that is long."""
    for signal in (Signal.QUEUE_TIME, Signal.GATEWAY_QUEUE_TIME):
        histogram = now.window.find_histogram(signal)
        mean = None if histogram is None else histogram.mean
        if histogram is not None and mean is not None and mean >= _LONG_WAIT_SECONDS:
            name, how = histogram.origin.name, reckoned(histogram)
            return Figure(mean, f"{name}: {mean:.3g} s in the queue on average, {how}")
    oldest = now.window.find(Signal.GATEWAY_OLDEST_QUEUED)
    if oldest is not None and oldest.last.value >= _LONG_WAIT_SECONDS:
        return Figure(oldest.last.value, f"{oldest.origin.name} {oldest.last.raw}")
    fact = told_number(
        now.window, r"queue (time|wait|delay)|wait(ing)? time|\bttft\b|time in queue|oldest"
    )
    value = number_of(fact)
    if fact is not None and value is not None and value >= _LONG_WAIT_SECONDS:
        return Figure(value, f"{fact.key} {fact.raw}", fact)
    return None


def more_arrives(now: Activity) -> str:
    finished = now.finished
    for signal in (Signal.RECEIVED, Signal.GATEWAY_ARRIVED):
        received = now.window.find(signal)
        came = None if received is None else received.increase
        done = None if finished is None else finished.increase
        if came is not None and done is not None and came > done * (1 + PLATEAU):
            return f"{number(came)} came and {number(done)} were answered in the same time"
    came_told = arrivals_per_second(now)
    done_told = _per_second(now, r"finish|complet|answer|serv(ed|ing|ice)|success|capacity")
    came_fact, came = came_told or (None, None)
    done_fact, done = done_told or (None, None)
    if came_fact is not None and came is not None and done_told is None and finished is not None:
        rate = finished.per_second
        if rate is not None and came > rate * (1 + PLATEAU):
            done_says = f"{number(round(rate, 2))} a second are answered"
            return f"{came_fact.key} {came_fact.raw}, and {done_says}"
    if came_fact is None or done_fact is None or came is None or done is None:
        return ""
    if came_fact is done_fact or came <= done * (1 + PLATEAU):
        return ""
    return f"{came_fact.key} {came_fact.raw} against {done_fact.key} {done_fact.raw}"


def arrivals_per_second(now: Activity) -> tuple[Fact, float] | None:
    """Requests that come, as somebody tells."""
    return _per_second(
        now, r"arriv|offered|incoming|inbound|demand|\bsent\b|request rate|submitted|\bnew requests"
    )


def _per_second(now: Activity, pattern: str) -> tuple[Fact, float] | None:
    """The newest such figure that is a rate, or a count over a time that its key says."""
    for fact in reversed(told_all(now.window, pattern, without=r"token|prompt|before")):
        value = number_of(fact)
        if value is None:
            continue
        if fact.unit is Unit.PER_SECOND or re.search(r"per s|rps|qps|rate", plain(fact.key)):
            return fact, value
        if fact.over_seconds and fact.unit in (None, Unit.REQUESTS, Unit.COUNT):
            return fact, value / fact.over_seconds
    return None
