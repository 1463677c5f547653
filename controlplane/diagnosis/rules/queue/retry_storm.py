"""Most of what arrives are retries of what was refused or given up."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import (
    is_time,
    number_of,
    plain,
    says_yes,
    told,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_MOST = 0.5
"""More than half of what arrives: each original request then comes twice at least."""
_NEARLY_ALL = 0.65
"""Three attempts for each request and more: no load of first attempts looks like that."""
_FEW_ANSWERED = 0.5
_GROWN = 1.2
_LATENCY = r"\b(answers?|ttft|e2e|latency|response|duration|first token|request)\b.* (s|ms)\b"
_ANSWERED = r"\b(answers|answered|delivered|completed|completions|finished|served)\b"
_RETRIES = r"\bretr(y|ies|ied|ying)\b|re ?attempts?|resubmi|re ?sent|duplicates?"
_MOST_SET = 20
"""A number of retries up to it is how many a client may make, and not how many came."""
_SETTING = r"limit|max|budget|allowed|backoff|after|policy|interval|delay|jitter|config"
_ALL = (
    r"^(all |total |upstream |backend |engine |gateway |http |api |llm |model |outgoing |proxy )*"
    r"(requests?|attempts|calls|rps|qps|dispatch(es|ed)?|arriv(als|ed)|received|incoming|offered"
    r"|total|sent"
    r"|posts?|submissions|tries)( requests)?( (sent|received|total|in all|at the engine|at engine"
    r"|upstream|seen|by the proxy))*( per (s|min|hour)| (last )?\d+ (s|min|m|h)"
    r"| (last|this|in the|in an|an) (hour|minute|day))*( total)?$"
)
_ORIGINALS = (
    r"\b(inbound|original|unique|distinct|first|users?|clients?|callers?|logical|organic|new|real"
    r"|agent"
    r"|human)\b.*\b(requests?|attempts?|rps|qps|ids?|bod(y|ies)|quer(y|ies)|calls?|turns?"
    r"|questions?|prompts?"
    r"|tasks?|jobs?|actions?|messages?)\b|^(turns|questions|user actions|tasks|jobs|intents"
    r"|messages"
    r"|conversations)\b"
)


def judge(window: Window) -> Verdict | None:
    """LIKELY where the share of retries, or attempts for each request, is known and large."""
    argument = Argument(window)
    share = _share(argument, window)
    now = activity_of(window)
    failing = _failures(argument, now) or _are_there_at_once(argument, now)
    if share is not None:
        if share < _MOST:
            return None
        attempts = f": {1 / (1 - share):.3g} attempts for each request" if share < 1 else ""
        argument.says(f"about {share * 100:.0f} % of what arrives are retries{attempts}")
        _cite_attempts(argument, window)
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


def _share(argument: Argument, window: Window) -> float | None:
    """Of all arrivals; None where nobody counts retries."""
    finds = (
        _share_told,
        _share_of_attempts,
        _share_beyond_originals,
        _share_of_counts,
        _share_of_copies,
    )
    for find in finds:
        share = find(argument, window)
        if share is not None:
            return share
    return None


def _retry_facts(window: Window) -> list[Fact]:
    return [
        fact for fact in told_all(window, _RETRIES, without=_SETTING) if number_of(fact) is not None
    ]


def _share_told(argument: Argument, window: Window) -> float | None:
    for fact in reversed(_retry_facts(window)):
        if re.search(r"share|ratio|fraction|percent|pct|rate of", plain(fact.key)) or (
            "%" in fact.raw
        ):
            value = number_of(fact) or 0.0
            argument.fact(fact)
            return value / 100.0 if value > 1.0 else value
    return None


def _share_of_attempts(argument: Argument, window: Window) -> float | None:
    fact = told_number(
        window,
        r"(attempts|retries|tries) (per|for each|by|of) (one |a |each )?(request|call|query"
        r"|original)",
        r"(mean|avg|average) (attempts|retries|tries)",
        r"retry (amplification|multiplier|factor)|amplification",
    )
    value = number_of(fact)
    if fact is None or value is None or value <= 0:
        return None
    attempts = value + 1 if re.search(r"retries", plain(fact.key)) else value
    argument.fact(fact)
    return max(0.0, 1 - 1 / attempts)


def _share_of_counts(argument: Argument, window: Window) -> float | None:
    facts = [fact for fact in _retry_facts(window) if (number_of(fact) or 0.0) > _MOST_SET]
    every = told_number(window, _ALL, without=_RETRIES)
    total = number_of(every)
    received = window.find(Signal.RECEIVED)
    if total is None and received is not None:
        total = received.increase
    if not facts:
        return None
    retries = number_of(facts[-1]) or 0.0
    argument.fact(facts[-1])
    originals = number_of(told_number(window, _ORIGINALS))
    if originals is not None and originals + retries > 0:
        argument.fact(told_number(window, _ORIGINALS))
        return retries / (originals + retries)
    if total is None or total <= 0 or retries > total:
        return None
    argument.fact(every)
    return retries / total


def _share_beyond_originals(argument: Argument, window: Window) -> float | None:
    """What arrives beyond what callers asked for, counted over the same time."""
    every = told_number(window, _ALL)
    total = number_of(every)
    wanted = told_all(window, _ORIGINALS, without=r"tokens|latency|ttft|ms\b|timeout")
    if every is None or not total:
        return None
    for originals in reversed(wanted):
        first = number_of(originals)
        if originals is every or not first or total < first or originals.unit is not every.unit:
            continue
        if originals.over_seconds == every.over_seconds:
            argument.fact(originals)
            argument.fact(every)
            return 1 - first / total
    return None


def _share_of_copies(argument: Argument, window: Window) -> float | None:
    """So many of the same body, for fewer questions."""
    copies = told_number(window, r"\b(same|identical|equal) (body|bodies|prompts?|requests?)\b")
    originals = told_number(window, _ORIGINALS)
    many, few = number_of(copies), number_of(originals)
    if copies is None or not many or not few or many <= few:
        return None
    argument.fact(copies)
    argument.fact(originals)
    return 1 - few / many


def _cite_attempts(argument: Argument, window: Window) -> None:
    """How many each layer makes; they multiply."""
    for fact in told_all(window, r"attempts|retries|max retries|jitter|backoff|timeout"):
        argument.fact(fact)


def _failures(argument: Argument, now: Activity) -> bool:
    """Something makes callers try again."""
    found = False
    for signal in (Signal.REJECTED, Signal.ABORTED, Signal.FAILED, Signal.GATEWAY_REJECTED):
        series = now.window.find(signal)
        if series is not None and (series.increase or 0.0) > 0:
            argument.series(series)
            found = True
    fact = told_number(
        now.window,
        r"\b(429|503|504|502|500|408)\b",
        r"time ?outs?\b(?!.* (s|ms)$)|timed out|reject|refus|given up|abandon|cancel|disconnect"
        r"|abort|fail|error|shed",
        without=r"limit|config|after|setting|client timeout\b|retr",
    )
    if (number_of(fact) or 0.0) > 0:
        argument.fact(fact)
        found = True
    timeout = told(now.window, r"(time ?out|deadline|patience|gives? up after)")
    if timeout is not None:
        argument.fact(timeout, "after which callers give up and try again")
    return found or _outlasts(argument, now, timeout)


def _are_too_few(now: Activity, share: float) -> bool:
    """Failures are counted, and they are far fewer than what is held to be retries: then the same
    was asked again by whoever wanted to."""
    every = number_of(told_number(now.window, _ALL, without=_RETRIES))
    counts = [
        number_of(fact) or 0.0
        for fact in told_all(now.window, _FAILURES, without=_NOT_FAILURES)
        if fact.unit is not Unit.RATIO and number_of(fact)
    ]
    if not every or not counts or max(counts) > every:
        return False
    patience = number_of(told(now.window, _PATIENCE))
    if patience is not None and any(abs(count - patience) < 1 for count in counts):
        return False
    return max(counts) < _OF_RETRIES * share * every


_OF_RETRIES = 0.2
"""Each retry follows a failure; a client may make several before it gives up."""
_PATIENCE = r"(time ?out|deadline|patience|gives? up after)"
_FAILURES = (
    r"\b(429|503|504|502|500|408)\b|time ?outs?\b(?!.* (s|ms)$)|timed out|reject|refus|given up"
    r"|abandon|cancel|disconnect|abort|fail|error|shed"
)
_NOT_FAILURES = r"limit|config|after|setting|client timeout\b|retr|\bs\b|\bms\b|per s"


def _outlasts(argument: Argument, now: Activity, timeout: Fact | None) -> bool:
    """A timeout that is set is no failure; one that answers do not keep is: they take longer,
    hardly any arrives, or the queue only grows."""
    patience = number_of(timeout)
    if timeout is None or not patience:
        return False
    late = told_number(now.window, _LATENCY, without=r"timeout|deadline|before|slo\b|gap")
    seconds = number_of(late)
    if late is not None and seconds is not None and is_time(late) and seconds >= patience:
        argument.fact(late, "longer than callers wait")
        return True
    answered = told_number(now.window, _ANSWERED, without=r"token|before|time|per s\b|probe")
    every = number_of(told_number(now.window, _ALL, without=_RETRIES))
    done = number_of(answered)
    if answered is not None and done is not None and done <= _FEW_ANSWERED * (every or 0.0):
        argument.fact(answered, "hardly any is answered")
        return True
    backlog = now.backlog
    return (
        backlog is not None
        and len(backlog.readings) > 1
        and backlog.last.value >= _GROWN * max(backlog.first.value, 1.0)
    )


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
    fact = told(window, _RETRIES)
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
