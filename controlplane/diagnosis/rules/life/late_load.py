"""Whether the load had passed when the new replicas were ready, and what callers paid meanwhile."""

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.life.late_growth import Growth, burst_of
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.views.told import number_of, share_of, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_OVER = 0.5
"""Of the arrivals at their most: the burst is over."""
_DRAINED = 0.2
"""Of the queue at its most."""
_SOON = 0.5
"""Of the time that it took: a burst that ends so soon after was for the most part missed."""
ARRIVALS = (
    r"arrivals?( \w+)* (per s|rate|rps)|^(request rate( per s)?|rps|qps|requests per s)$"
    r"|offered|incoming"
    r"|^(?!.*\btokens?\b)(new |requests )?(arriv\w+|requests|calls)( received| seen| new)?"
    r"( (in|over|within|during|for|per))?( the| this| each)?( last| past)? (\d+ )?"
    r"(s|secs?|seconds?|min|mins|minutes?)$"
)
"""A rate, or so many within a time."""
_HARM = (
    r"time(d)? ?outs?|gave up|failed|errors?|5\d\d|rejected|lost|missed|abandon"
    r"|slo (miss|violat)"
)
_NO_HARM = r"client timeout( s)?$|timeout s$|limit|setting|rate limit"
_IN_TIME = (
    r"\b(answered|served|share|met|percent|attainment)\b.*\b(in time|objective|slo|sla|target)\b"
)
_MOST_IN_TIME = 0.9
_FIRST = r"first (request|user|caller|call).*(wait|took|latency|ttft)"
_NO_WAIT = r"limit|objective|slo|target|timeout|rule|threshold"
_LONG_SECONDS = 10.0
"""Nobody's first answer: whoever waits so long has been let down."""
_ENDED_AT = (
    r"(spike|burst|peak|surge|load|wave|rush|traffic)( \w+)* (end|ended|over|gone|until|stopped)"
    r"( \w+)* at( s)?$"
)
_AFTER = r"\b(after|before|normal|later)\b"
_DURING = r"\b(during|while|in)( (the )?(spike|burst|peak|surge|load|wave|rush))?\b"
_WORSE = 2.0


def is_over(argument: Argument, now: Activity, growth: Growth) -> bool:
    """The load had passed when the replica was ready."""
    return (
        _burst_was_shorter(argument, now, growth)
        or _first_waited(argument, now, growth)
        or _ended_before(argument, now, growth)
        or _arrivals_fell(argument, now, growth)
        or (
            growth.ready_at is not None
            and (
                _recovers(argument, now.window, growth.ready_at)
                or _is_drained(now, growth.ready_at)
            )
        )
    )


def _burst_was_shorter(argument: Argument, now: Activity, growth: Growth) -> bool:
    burst = burst_of(now.window)
    if burst is None or burst.value is None or growth.delay_seconds is None:
        return False
    argument.fact(burst)
    if burst.value >= growth.delay_seconds:
        return False
    argument.says(f"{says(burst)} is over before {number(growth.delay_seconds)} s have passed")
    return True


def _first_waited(argument: Argument, now: Activity, growth: Growth) -> bool:
    waited = told_number(now.window, _FIRST)
    longest = number_of(waited)
    if waited is None or longest is None or growth.delay_seconds is None:
        return False
    argument.fact(waited)
    return longest >= _OVER * growth.delay_seconds


def _ended_before(argument: Argument, now: Activity, growth: Growth) -> bool:
    ended = told_number(now.window, _ENDED_AT)
    end = number_of(ended)
    if ended is None or end is None or growth.ready_at is None:
        return False
    argument.fact(ended)
    return end <= growth.ready_at


def _arrivals_fell(argument: Argument, now: Activity, growth: Growth) -> bool:
    """Before it was ready, or so soon afterwards that most of it had been without help."""
    arrivals = course_of(now.window, Signal.ARRIVAL_RATE, ARRIVALS)
    if arrivals is None or len(arrivals.readings) < 2:
        return False
    argument.says(
        f"{arrivals.origin.name} {', '.join(each.raw for each in arrivals.readings)} at "
        f"{', '.join(f'{each.at:g}' for each in arrivals.readings)} s"
    )
    ready_at = growth.ready_at or now.window.end
    fell_at = _fell_at(arrivals)
    if fell_at is None:
        return False
    if fell_at <= ready_at:
        return True
    if growth.ready_at is None or not growth.delay_seconds:
        return False
    if fell_at - ready_at > _SOON * growth.delay_seconds:
        return False
    argument.says(
        f"{number(fell_at - ready_at)} s after they were ready the load is over; it took "
        f"{number(growth.delay_seconds)} s"
    )
    return True


def _fell_at(arrivals: Series) -> float | None:
    """When no more than half of the most came, to the end."""
    most = arrivals.max
    peak = next(each.at for each in arrivals.readings if each.value == most)
    return next(
        (each.at for each in arrivals.readings if each.at > peak and each.value <= _OVER * most),
        None,
    )


def _is_drained(now: Activity, ready_at: float) -> bool:
    backlog = now.backlog or now.queued
    if backlog is None:
        return False
    at_ready = [each for each in backlog.readings if each.at >= ready_at]
    earlier = [each for each in backlog.readings if each.at < ready_at]
    if not at_ready or not earlier:
        return False
    most = max(each.value for each in earlier)
    return most > 0 and at_ready[0].value <= _DRAINED * most


def _recovers(argument: Argument, window: Window, ready_at: float) -> bool:
    """Waits and queues, as they were told, are over once the new replicas serve."""
    by_key: dict[str, list[Fact]] = {}
    for fact in told_all(
        window, r"ttft|latency|wait|queue|backlog", without=r"rule|limit|objective"
    ):
        if number_of(fact) is not None:
            by_key.setdefault(fact.key, []).append(fact)
    found = False
    for key, facts in by_key.items():
        earlier = [number_of(fact) or 0.0 for fact in facts if fact.at <= ready_at]
        later = [number_of(fact) or 0.0 for fact in facts if fact.at > ready_at]
        if earlier and later and max(earlier) > 0 and later[-1] <= _DRAINED * max(earlier):
            told_values = ", ".join(f"{fact.raw} at {fact.at:g} s" for fact in facts)
            argument.says(f"{key} {told_values}: over once the new replicas serve")
            found = True
    return found


def is_harmed(argument: Argument, now: Activity) -> bool:
    """Callers paid for it meanwhile."""
    harmed = False
    for fact in told_all(now.window, _HARM, without=_NO_HARM):
        if _is_of_now(now, fact):
            argument.fact(fact, "meanwhile")
            harmed = True
    for fact in told_all(now.window, _IN_TIME):
        share = share_of(fact)
        if share is not None and share < _MOST_IN_TIME:
            argument.fact(fact, "and no more")
            harmed = True
    for contrast in contrasts(now.window, r"ttft|latency|p9\d|wait", base=_AFTER, other=_DURING):
        if contrast.factor >= _WORSE:
            argument.says(contrast.says)
            harmed = True
    harmed = harmed or any(
        fact.unit is Unit.SECONDS and (number_of(fact) or 0.0) >= _LONG_SECONDS
        for fact in told_all(now.window, rf"{_FIRST}|\bttft\b|first token", without=_NO_WAIT)
    )
    backlog = now.backlog
    if backlog is not None and len(backlog.readings) > 1:
        argument.series(backlog)
        harmed = harmed or backlog.max > max(1.0, 2 * backlog.first.value)
    for series in (now.running, now.waiting):
        argument.series(series)
    return harmed


def _is_of_now(now: Activity, fact: Fact) -> bool:
    """A rate, a share, a rise, or a count of more than what any service loses: a few errors since
    the process began are nobody's harm of today."""
    value = number_of(fact)
    if value is None or value <= 0:
        return False
    others = [
        number_of(each) for each in now.window.facts if each.key == fact.key and each.at < fact.at
    ]
    if others and others[-1] is not None:
        return value - others[-1] > _FEW_LOST
    timed = fact.over_seconds is not None or fact.unit in (Unit.PER_SECOND, Unit.RATIO)
    return timed or value >= _FEW_LOST


_FEW_LOST = 10.0
"""Requests, counted once: connections break and callers send nonsense in any hour."""
