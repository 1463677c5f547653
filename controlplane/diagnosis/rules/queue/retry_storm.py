"""Most of what arrives are retries of what was refused or given up."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.queue.retry_shares import (
    ALL,
    ATTEMPTS_OF_ONE,
    RETRIES,
    share_of_retries,
)
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import (
    is_time,
    number_of,
    plain,
    says_yes,
    share_of,
    told,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.answers import ANSWERED
from dataplane.engine_metrics.signal import Signal, Unit

_MOST = 0.5
"""More than half of what arrives: each original request then comes twice at least."""
_NEARLY_ALL = 0.65
"""Three attempts for each request and more: no load of first attempts looks like that."""
_FEW_ANSWERED = 0.5
_LATENCY = r"\b(answers?|ttft|e2e|latency|response|duration|first token|request)\b.* (s|ms)\b"


def judge(window: Window) -> Verdict | None:
    """LIKELY where the share of retries, or attempts for each request, is known and large."""
    argument = Argument(window)
    share = share_of_retries(argument, window)
    now = activity_of(window)
    failing = _failures(argument, now) or _are_there_at_once(argument, now)
    if share is not None:
        if share < _MOST:
            return None
        attempts = f": {1 / (1 - share):.3g} attempts for each request" if share < 1 else ""
        argument.says(f"about {share * 100:.0f} % of what arrives are retries{attempts}")
        _cite_attempts(argument, window)
        _cite_incurable(argument, window)
        _cite_load(argument, now)
        argument.against("queue.overload: the load is made of requests that came before")
        argument.against("tenant.flood: it is everybody's failed requests that come again")
        if not failing or _are_too_few(now, share):
            argument.need("refusals, timeouts or requests that were given up over time")
            return argument.verdict(Confidence.POSSIBLE)
        return argument.verdict(Confidence.CERTAIN if share >= _NEARLY_ALL else Confidence.LIKELY)
    if not failing or not _hints(argument, window):
        return None
    _cite_load(argument, now)
    argument.need("how many arrivals are retries, or attempts for each request")
    return argument.verdict(Confidence.POSSIBLE)


def _cite_attempts(argument: Argument, window: Window) -> None:
    """How many each layer makes; they multiply."""
    for fact in told_all(window, r"attempts|retries|max retries|jitter|backoff|timeout"):
        argument.fact(fact)


def _cite_incurable(argument: Argument, window: Window) -> None:
    """Answers that no other attempt changes: the request itself is wrong."""
    for fact in told_all(window, _INCURABLE, without=r"limit|max|after"):
        status = re.search(_INCURABLE, plain(fact.key))
        if (number_of(fact) or 0.0) > 0 and status is not None:
            argument.says(f"{fact.key} {fact.raw}: no retry can cure a {status[0]}")


def _failures(argument: Argument, now: Activity) -> bool:
    """Something makes callers try again."""
    found = False
    for signal in (Signal.REJECTED, Signal.ABORTED, Signal.FAILED, Signal.GATEWAY_REJECTED):
        series = now.window.find(signal)
        if series is not None and (series.increase or 0.0) > 0:
            argument.series(series)
            found = True
    for fact in _counted_failures(now.window)[-1:]:
        argument.fact(fact)
        found = True
    answered = told_number(now.window, _SHARE_ANSWERED, without=r"target|objective|slo|min|before")
    share = share_of(answered)
    if answered is not None and share is not None and share < _MANY_FAIL:
        argument.fact(answered, "what callers get")
        found = True
    timeout = _shortest_patience(now.window)
    if timeout is not None:
        argument.fact(timeout, "after which callers give up and try again")
    return found or _outlasts(argument, now, timeout)


def _counted_failures(window: Window) -> list[Fact]:
    """The surest last; a time is a setting, or how long something took."""
    return [
        fact
        for pattern in (_FAILED, _STATUS)
        for fact in told_all(window, pattern, without=_NO_FAILURE)
        if fact.unit is not Unit.SECONDS and (number_of(fact) or 0.0) > 0
    ]


def _are_too_few(now: Activity, share: float) -> bool:
    """Failures are counted, and they are far fewer than what is held to be retries, however many
    attempts were made of each: then the same was asked again by whoever wanted to."""
    every = number_of(told_number(now.window, ALL, without=RETRIES))
    counts = [
        number_of(fact) or 0.0
        for fact in told_all(now.window, _FAILURES, without=_NO_FAILURE)
        if fact.unit is not Unit.RATIO and number_of(fact)
        if fact.over_seconds or not re.search(_TIMED, plain(fact.key))
    ]
    if not every or not counts or max(counts) > every:
        return False
    patience = number_of(_shortest_patience(now.window))
    if patience is not None and any(abs(count - patience) < 1 for count in counts):
        return False
    each = [number_of(fact) or 0.0 for fact in told_all(now.window, ATTEMPTS_OF_ONE)]
    return max(counts) * max([1.0, *each]) < _OF_RETRIES * share * every


def _shortest_patience(window: Window) -> Fact | None:
    """Of several layers the one that gives up first."""
    told_times = [fact for fact in told_all(window, _PATIENCE) if number_of(fact) and is_time(fact)]
    least = min(told_times, key=lambda fact: number_of(fact) or 0.0, default=None)
    return least or told(window, _PATIENCE)


_OF_RETRIES = 0.2
"""Each retry follows a failure; a client may make several before it gives up."""
_PATIENCE = r"(time ?out|deadline|patience|gives? up after)"
_STATUS = r"\b(400|408|413|415|422|429|500|502|503|504)\b"
_INCURABLE = r"\b(400|413|415|422)\b"
"""400, 413, 415 and 422 fail at every replica; whoever tries them again does so for nothing."""
_SHARE_ANSWERED = (
    r"\bavailability\b|\b(success(es|ful)?|answered|served|ok) (rate|share|ratio|fraction|percent"
    r"|pct)\b|\b(share|fraction|percent) (of )?(\w+ )?(answered|served|successful)\b"
)
_MANY_FAIL = 0.8
_FAILED = (
    r"time ?outs?\b(?!.* (s|ms)$)|timed out|reject|refus|given up|abandon|cancel|disconnect|abort"
    r"|fail(?!over)|error|shed"
)
_NO_FAILURE = r"limit|config|after|setting|client timeout\b|retr"
_FAILURES = f"{_STATUS}|{_FAILED}"
_TIMED = r"\bs\b|\bms\b|per s"


def _outlasts(argument: Argument, now: Activity, timeout: Fact | None) -> bool:
    """A timeout that is set is no failure; one that answers do not keep is: they take longer,
    hardly any arrives, or the queue is too long for it."""
    patience = number_of(timeout)
    if timeout is None or not patience:
        return False
    late = told_number(now.window, _LATENCY, without=r"timeout|deadline|before|slo\b|gap")
    seconds = number_of(late)
    if late is not None and seconds is not None and is_time(late) and seconds >= patience:
        argument.fact(late, "longer than callers wait")
        return True
    answered = told_number(now.window, ANSWERED, without=r"token|before|time|per s\b|probe")
    every = number_of(told_number(now.window, ALL, without=RETRIES))
    done = number_of(answered)
    if answered is not None and done is not None and done <= _FEW_ANSWERED * (every or 0.0):
        argument.fact(answered, "hardly any is answered")
        return True
    return _is_too_long(argument, now, patience)


def _is_too_long(argument: Argument, now: Activity, patience: float) -> bool:
    """Whoever comes last into the queue waits longer for its turn than callers do."""
    backlog, finished = now.backlog, now.finished
    rate = None if finished is None else finished.per_second
    if backlog is None or finished is None or not rate or backlog.last.value < patience * rate:
        return False
    wait = backlog.last.value / rate
    argument.says(
        f"{backlog.origin.name} {backlog.last.raw}, {finished.origin.name} {number(rate)} a "
        f"second: {number(wait)} s until the last has its turn"
    )
    return True


def _are_there_at_once(argument: Argument, now: Activity) -> bool:
    """The first attempt is still being answered when the next one comes."""
    opened = told(now.window, r"(first|earlier|previous|original)\b.*\bstill\b")
    if not says_yes(opened):
        return False
    argument.fact(opened, "the next attempt came all the same")
    return True


def _hints(argument: Argument, window: Window) -> bool:
    """Somebody speaks of retries, or more is given up than ends."""
    for change in window.changes_with(r"\bretr(y|ies)|max_?attempts|backoff"):
        argument.says(f"change: {change.what}")
        return True
    fact = told(window, RETRIES)
    argument.fact(fact)
    return fact is not None


def _cite_load(argument: Argument, now: Activity) -> None:
    argument.series(now.backlog)
    argument.series(now.in_flight)
    received = now.window.find(Signal.RECEIVED)
    argument.series(received)
    if received is not None and now.finished is not None:
        came, done = received.increase, now.finished.increase
        if came and done is not None:
            argument.says(f"{number(came)} came, {number(done)} were answered")


RETRY_STORM = Rule(
    id="queue-retry-storm",
    mechanism=Mechanism.QUEUE_RETRY_STORM,
    judge=judge,
    needs=(
        "retries among arrivals, or attempts for each request",
        "refusals, timeouts or requests that were given up over time",
    ),
    told_apart="From overload and from a flood by one caller by the share of retries, from a limit "
    "that merely refuses by load that the refusals bring back.",
    remedy="Give retries a budget and growing, jittered pauses; answer refusals with Retry-After; "
    "shed retries before first attempts.",
    hides="More replicas carry the retries too, and hide what made the first attempts fail.",
    explains=frozenset(
        {Mechanism.QUEUE_OVERLOAD, Mechanism.POLICY_REJECTING, Mechanism.TENANT_FLOOD}
    ),
)
