"""How many of the requests that arrive came before: told, counted, or beyond what was asked for."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.shares import SHARE
from dataplane.engine_metrics.signal import Signal

RETRIES = r"\bretr(y|ies|ied|ying)\b|re ?attempts?|resubmi|re ?sent|duplicates?"
_MOST_SET = 20
"""A number of retries up to it is how many a client may make, and not how many came."""
_SETTING = r"limit|max|budget|allowed|backoff|after|policy|interval|delay|jitter|config"
ALL = (
    r"^(all |total |upstream |backend |engine |worker |replica |gateway |http |api |llm |model "
    r"|outgoing |proxy )*"
    r"(requests?|attempts|calls|rps|qps|dispatch(es|ed)?|arriv(als|ed)|received|incoming|offered"
    r"|total|sent"
    r"|posts?|submissions|tries)( requests)?( (sent|received|total|in all|at the engine|at engine"
    r"|upstream|seen|by the proxy|made|(to|at|on) (the |all )?(worker|engine|replica|backend"
    r"|upstream|pod|server|provider)s?))*( per (s|min|hour)| (last )?\d+ (s|min|m|h)"
    r"| (last|this|in the|in an|an) (hour|minute|min|day))*( total)?$"
)
_ORIGINALS = (
    r"\b(inbound|original|unique|distinct|first|users?|clients?|callers?|logical|organic|new|real"
    r"|agent"
    r"|customers?|human)\b.*\b(requests?|attempts?|rps|qps|ids?|bod(y|ies)|quer(y|ies)|calls?|turns?"
    r"|questions?|prompts?"
    r"|tasks?|jobs?|actions?|messages?)\b|^(turns|questions|user actions|tasks|jobs|intents"
    r"|messages"
    r"|conversations)\b|^(requests?|calls?|quer(y|ies)) (from|of|by) (the |our )?(clients?|users?"
    r"|callers?|customers?|outside)\b"
)
ATTEMPTS_OF_ONE = (
    r"\b(attempts|retries|tries) (per|for each|by|of) (one |a |each )?((failed|failing|bad|refused"
    r"|rejected|client|user) )?(request|call|query|original)"
)


def share_of_retries(argument: Argument, window: Window) -> float | None:
    """How many of all arrivals are retries, 0 to 1; None where nobody counts retries."""
    finds = (
        _share_told,
        _share_of_attempts,
        _share_beyond_originals,
        _share_of_counts,
        _share_of_copies,
        _share_in_flight,
    )
    for find in finds:
        share = find(argument, window)
        if share is not None:
            return share
    return None


def _retry_facts(window: Window) -> list[Fact]:
    return [
        fact for fact in told_all(window, RETRIES, without=_SETTING) if number_of(fact) is not None
    ]


def _share_told(argument: Argument, window: Window) -> float | None:
    for fact in reversed(_retry_facts(window)):
        if re.search(rf"{SHARE}|rate of", plain(fact.key)) or ("%" in fact.raw):
            value = number_of(fact) or 0.0
            argument.fact(fact)
            return value / 100.0 if value > 1.0 else value
    return None


def _share_of_attempts(argument: Argument, window: Window) -> float | None:
    fact = told_number(
        window,
        r"(attempts|retries|tries) (per|for each|by|of) (one |a |each )?(request|call|query"
        r"|original)",
        r"(mean|avg|average) (attempts|retries|tries)"
        r"(?! \w+ (failed|failing|bad|refused|rejected)\b)",
        r"retry (amplification|multiplier|factor)|amplification",
        without=r"\b(max|maximum|most|worst|p9\d+)\b",
    )
    value = number_of(fact)
    if fact is None or value is None or value <= 0:
        return None
    attempts = value + 1 if re.search(r"retries", plain(fact.key)) else value
    argument.fact(fact)
    return max(0.0, 1 - 1 / attempts)


def _share_of_counts(argument: Argument, window: Window) -> float | None:
    facts = [fact for fact in _retry_facts(window) if (number_of(fact) or 0.0) > _MOST_SET]
    every = told_number(window, ALL, without=RETRIES)
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
    every = told_number(window, ALL)
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


def _share_in_flight(argument: Argument, window: Window) -> float | None:
    """More attempts are open than there are requests of callers, where layers are set to try again
    and somebody gave up: the earlier attempts of the same requests go on."""
    now = activity_of(window)
    tries = [fact for fact in told_all(window, RETRIES) if number_of(fact)]
    wanted = told_all(window, _ORIGINALS, without=_OF_A_POOL)
    if now.in_flight is None or not tries:
        return None
    several = now.in_flight.last
    first = max(
        (fact for fact in wanted if fact.at == several.at and number_of(fact)),
        key=lambda fact: number_of(fact) or 0.0,
        default=None,
    )
    least = number_of(first)
    if first is None or not least or first.over_seconds or several.value <= least:
        return None
    argument.fact(first)
    argument.series(now.in_flight, "attempts that are open, of no more requests")
    return 1 - least / several.value


_OF_A_POOL = r"tokens|latency|ttft|ms\b|timeout|per s|prompts?|bod(y|ies)|quer|questions?|ids?"
"""Prompts that are drawn from a few come again without a failure."""
