"""What a router knows of its engines is older than it allows: it takes all of them for full."""

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.old_view import (
    AGE,
    LIMIT,
    NO_AGE,
    STALE_AFTER,
    age_of,
)
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, says_yes, told_all
from controlplane.diagnosis.views.truth import Truth
from dataplane.engine_metrics.signal import Signal, Unit

_FULL = 0.95
_ROOM = 0.5
"""Of the KV cache."""
_SATURATED = r"\b(pool|endpoints?|fleet|router|backends?|flow control)\b.*\bsaturat"
_TURNED_AWAY = (
    r"\b(429|500|502|503)\b|\b(router|gateway|epp|picker|pool)s?\b.*\b(errors?|refus|reject|evict)"
    r"|\b(rejected|refused|evicted|shed)\b"
)
_BY_ENGINES = r"\b(engines?|workers?|upstream|backends?|replicas?|pods?)\b"


def older_than_allowed(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A reading's age is beyond the age from which it counts as none, while the engine that was
    read has room: whoever is turned away, is so for what is not known."""
    ages = _timed(told_all(now.window, AGE, without=LIMIT))
    limits = _timed(told_all(now.window, STALE_AFTER, without=NO_AGE))
    if not ages or not limits:
        return None
    (oldest, age), (limit, allowed) = max(ages, key=lambda each: each[1]), limits[-1]
    if age <= allowed or not _cite_room(argument, now):
        return None
    argument.says(f"{says(oldest)}, and {says(limit)}: what is known counts as too old")
    is_full = _cite_full(argument, now)
    away = _cite_turned_away(argument, now)
    argument.against("queue.overload and queue.blocked: the engine has room, and none waits there")
    if is_full or away:
        argument.against("policy.rejecting: the limit is not reached, its figure is out of date")
        return Confidence.CERTAIN if is_full and away else Confidence.LIKELY
    argument.need("what the router does with an endpoint that it takes for stale")
    return Confidence.POSSIBLE


def _timed(facts: tuple[Fact, ...]) -> list[tuple[Fact, float]]:
    return [(fact, age) for fact in facts if (age := age_of(fact)) is not None and age > 0]


def _cite_room(argument: Argument, now: Activity) -> bool:
    """Nobody waits at the engine, and most of its cache is free."""
    waiting, kv = now.waiting, now.kv
    if waiting is None or waiting.last.value > 0 or (kv is not None and kv.last.value >= _ROOM):
        return False
    for series in (now.running, waiting, kv):
        argument.series(series)
    return True


def _cite_full(argument: Argument, now: Activity) -> bool:
    full = now.window.find(Signal.ROUTED_FULL)
    if full is not None and full.last.value >= _FULL:
        argument.series(full, "as its router takes it")
        return True
    for fact in told_all(now.window, _SATURATED):
        if says_yes(fact) or (number_of(fact) or 0.0) >= _FULL:
            argument.fact(fact, "as its router takes it")
            return True
    return False


def _cite_turned_away(argument: Argument, now: Activity) -> bool:
    """By whoever stands before the engines, and not by them."""
    found = [
        fact
        for fact in told_all(now.window, _TURNED_AWAY, without=_BY_ENGINES)
        if fact.unit not in (Unit.SECONDS, Unit.RATIO) and (number_of(fact) or 0.0) > 0
    ]
    for fact in found:
        argument.fact(fact)
    for fact in told_all(now.window, rf"(?=.*{_BY_ENGINES})(?=.*\berrors?\b)"):
        argument.fact(fact)
    argument.series(now.window.find(Signal.GATEWAY_QUEUED), "held back")
    return bool(found)
