"""capacity.late: replicas were added, and ready when the load that they were for had passed or had
done its harm."""

import re
from dataclasses import dataclass

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.views.told import number_of, plain, says_no, told, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_LEAST_SECONDS = 20.0
"""Until a replica is ready: below it any queue waits it out."""
_OVER = 0.5
"""Of the arrivals at their most: the burst is over."""
_DRAINED = 0.2
"""Of the queue at its most."""
_WHO = r"(replicas?|pods?|workers?|instances?|nodes?)"
_READY = (
    rf"{_WHO}( \w+)? (ready|up|running|available|serving|awake)|^{_WHO}( now| count)?$"
    rf"|(ready|running|available|healthy) {_WHO}"
)
_WANTED = (
    rf"{_WHO}( \w+)? (desired|wanted|target)|desired {_WHO}"
    r"|(hpa|autoscaler|keda|scaler) (desired|target|wants)"
)
_ALLOWED = rf"max(imum)? {_WHO}|{_WHO} (max|limit|allowed)"
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
)
_NO_DELAY = r"ttft|client|timeout|burst|spike|last|ago|queue|wait|usual|before|expected|per "
_BURST = (
    r"(burst|spike|peak|surge|wave|rush|load)( \w+)* (lasts?|lasted|length|duration|took|over|for)"
    r"|^(burst|spike|surge|peak|wave|rush)( s| seconds)?$"
)
_ARRIVALS = (
    r"arrivals?( \w+)* (per s|rate|rps)|^(request rate|rps|qps|requests per s)$|offered|incoming"
)
_HARM = (
    r"time(d)? ?outs?|gave up|failed|errors?|5\d\d|rejected|lost|missed|abandon"
    r"|slo (miss|violat)"
)
_NO_HARM = r"client timeout( s)?$|timeout s$|limit|setting|rate limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    """Replicas that were added."""

    decided_at: float | None
    ready_at: float | None
    delay_seconds: float | None


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    argument = Argument(window)
    growth = _growth(argument, window)
    if growth is None or not growth.delay_seconds or growth.delay_seconds < _LEAST_SECONDS:
        return None
    is_over = _is_over(argument, now, growth)
    is_harmed = _is_harmed(argument, now, growth)
    _cite_delays(argument, window)
    argument.against("queue.overload: the capacity was decided on, and allowed")
    argument.against("startup.slow: a start of that length is late for this load, not too long")
    ready = course_of(window, Signal.REPLICAS, _READY)
    if is_harmed and ready is not None and ready.first.value == 0 and ready.last.value > 0:
        argument.says("before it nobody was there to answer at all")
        is_over = True
    if is_over and is_harmed:
        return argument.verdict(Confidence.LIKELY)
    if is_over and _measured(window):
        return argument.verdict(Confidence.CERTAIN)
    if is_over or (is_harmed and growth.ready_at is not None):
        argument.need("arrivals over time", "when the new replica took its first request")
        return argument.verdict(Confidence.LIKELY if is_over else Confidence.POSSIBLE)
    return None


def _growth(argument: Argument, window: Window) -> _Growth | None:
    """When more was decided on, and when it was there."""
    ready = course_of(window, Signal.REPLICAS, _READY)
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
    for change in window.changes_with(rf"{_WHO}\b.*\b(ready|up|joined|available|serving)\b"):
        argument.says(f"{change.at:g} s: {change.what}")
        ready_at = change.at if ready_at is None else ready_at
    if ready_at is None:
        began = window.last_event(LogKind.READY)
        ready_at = None if began is None or decided is None else began.at
    delays = _delays(window)
    for fact in delays:
        argument.fact(fact)
    told_delay = max((fact.value or 0.0 for fact in delays), default=None)
    zero = told(window, r"scale(d)? to zero|from zero|idle scale")
    if zero is not None and not says_no(zero):
        argument.fact(zero)
    else:
        zero = None
    known = _burst(window) or zero
    if decided is None and ready_at is None and not (told_delay and known):
        return None
    if decided is not None and ready_at is not None and ready_at > decided:
        argument.says(f"decided at {decided:g} s, ready at {ready_at:g} s")
        return _Growth(decided_at=decided, ready_at=ready_at, delay_seconds=ready_at - decided)
    if ready_at is not None and ready is not None and told_delay is None:
        told_delay = ready_at - ready.first.at
    return _Growth(decided_at=decided, ready_at=ready_at, delay_seconds=told_delay)


def _moment(argument: Argument, window: Window, pattern: str) -> float | None:
    """A time that somebody wrote down: `pod_ready_at_s: 410`."""
    fact = told_number(window, pattern)
    value = number_of(fact)
    if fact is None or value is None or fact.unit is not Unit.SECONDS:
        return None
    argument.fact(fact)
    return value


_DECIDED_AT = r"(trigger|scal|decision|decided|hpa|keda|upscale|alert)\w*( \w+)* at( s)?$"
_READY_AT = rf"({_WHO}|new|capacity)( \w+)* (ready|up|serving|available)( \w+)* at( s)?$"
_ENDED_AT = (
    r"(spike|burst|peak|surge|load|wave|rush|traffic)( \w+)* (end|ended|over|gone|until|stopped)"
    r"( \w+)* at( s)?$"
)


def _decided(argument: Argument, window: Window) -> float | None:
    moments: list[float] = []
    for change in window.changes_with(_DECIDED):
        argument.says(f"{change.at:g} s: {change.what}")
        moments.append(change.at)
    for line in window.lines_with(_DECIDED_LINE)[:2]:
        argument.says(" ".join(line.split())[:220])
    return moments[0] if moments else None


def _rise(series: Series) -> float | None:
    """When it was first more than before."""
    first = series.first.value
    return next((each.at for each in series.readings if each.value > first), None)


def _delays(window: Window) -> list[Fact]:
    return [
        fact
        for fact in told_all(window, _DELAY, without=_NO_DELAY)
        if fact.unit is Unit.SECONDS and fact.value is not None
    ]


def _burst(window: Window) -> Fact | None:
    fact = told_number(window, _BURST)
    return fact if fact is not None and fact.unit is Unit.SECONDS else None


def _is_over(argument: Argument, now: Activity, growth: _Growth) -> bool:
    """The load had passed when the replica was ready."""
    burst = _burst(now.window)
    if burst is not None and burst.value is not None and growth.delay_seconds is not None:
        argument.fact(burst)
        if burst.value < growth.delay_seconds:
            argument.says(
                f"{says(burst)} is over before {number(growth.delay_seconds)} s have passed"
            )
            return True
    waited = told_number(now.window, r"first (request|user|caller|call).*(wait|took|latency|ttft)")
    longest = number_of(waited)
    if waited is not None and longest is not None and growth.delay_seconds is not None:
        argument.fact(waited)
        if longest >= _OVER * growth.delay_seconds:
            return True
    ended = told_number(now.window, _ENDED_AT)
    end = number_of(ended)
    if ended is not None and end is not None and growth.ready_at is not None:
        argument.fact(ended)
        if end <= growth.ready_at:
            return True
    arrivals = course_of(now.window, Signal.ARRIVAL_RATE, _ARRIVALS)
    if arrivals is not None and len(arrivals.readings) > 1:
        argument.says(
            f"{arrivals.origin.name} {', '.join(each.raw for each in arrivals.readings)} at "
            f"{', '.join(f'{each.at:g}' for each in arrivals.readings)} s"
        )
        most = arrivals.max
        before = arrivals.between(arrivals.first.at, growth.ready_at or now.window.end)
        if before is not None and before.last.value <= _OVER * most:
            return True
    if growth.ready_at is not None and _recovers(argument, now.window, growth.ready_at):
        return True
    backlog = now.backlog or now.queued
    if backlog is None or growth.ready_at is None:
        return False
    at_ready = [each for each in backlog.readings if each.at >= growth.ready_at]
    earlier = [each for each in backlog.readings if each.at < growth.ready_at]
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


def _is_harmed(argument: Argument, now: Activity, growth: _Growth) -> bool:
    """Callers paid for it meanwhile."""
    harmed = False
    for fact in told_all(now.window, _HARM, without=_NO_HARM):
        value = number_of(fact)
        if value is not None and value > 0:
            argument.fact(fact, "meanwhile")
            harmed = True
    for contrast in contrasts(now.window, r"ttft|latency|p9\d|wait", base=_AFTER, other=_DURING):
        if contrast.factor >= _WORSE:
            argument.says(contrast.says)
            harmed = True
    backlog = now.backlog
    if backlog is not None and len(backlog.readings) > 1:
        argument.series(backlog)
        harmed = harmed or backlog.max > max(1.0, 2 * backlog.first.value)
    for series in (now.running, now.waiting):
        argument.series(series)
    return harmed


_AFTER = r"\b(after|before|normal|later)\b"
_DURING = r"\b(during|while|in)( (the )?(spike|burst|peak|surge|load|wave|rush))?\b"
_WORSE = 2.0


def _measured(window: Window) -> bool:
    return _burst(window) is not None and bool(_delays(window))


def _cite_delays(argument: Argument, window: Window) -> None:
    argument.fact(told(window, _ALLOWED), "so many were allowed")
    for fact in told_all(window, r"client timeout|patience|deadline"):
        argument.fact(fact)
    for fact in window.facts:
        if re.search(r"upscale|stabili[sz]ation|cooldown|poll|decision", plain(fact.key)):
            argument.fact(fact)


CAPACITY_LATE = Rule(
    id="capacity-late",
    mechanism=Mechanism.CAPACITY_LATE,
    judge=_judge,
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
