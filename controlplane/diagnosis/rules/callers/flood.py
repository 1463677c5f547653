"""tenant.flood: one caller has most of what there is, and others wait for it."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.callers.callers import pains_of, shares_of
from controlplane.diagnosis.rules.callers.shares import Shares
from controlplane.diagnosis.rules.callers.tables import written_members
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.symptoms.waiting import FEW_WAIT
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.callers import CALLER, PAIN
from dataplane.engine_metrics.signal import Signal, Unit

_MOST_OF_TWO = 0.8
_MOST = 0.6
"""Of what there is, with three callers or more."""
_WORSE = 3.0
"""Than without the one, or than before: a wait of its own making varies less."""


def _judge(window: Window) -> Verdict | None:
    floods = [shares for shares in shares_of(window) if _is_flood(shares)]
    if not floods:
        return None
    now = activity_of(window)
    argument = Argument(window)
    for shares in floods[:4]:
        argument.says(shares.says)
    for shares in shares_of(window):
        if shares not in floods:
            argument.says(shares.says)
    paid = _is_paid_by_others(argument, window, floods[0].name)
    paid += _is_worse_than_before(argument, window)
    waits = _waits(argument, now)
    signs = paid + int(waits) + _refusals(argument, window)
    is_paid = paid > 0 or _others_wait(argument, now, floods, waits)
    proven = _is_proven(argument, window)
    _cite_load(argument, now)
    argument.against("queue.overload: without the one caller there is room for the others")
    argument.against("queue.retry_storm: nobody says that they are retries")
    if proven:
        return argument.verdict(Confidence.CERTAIN, detail=floods[0].name)
    if is_paid and proven is None:
        is_clear = floods[0].num_callers > 2
        return argument.verdict(
            Confidence.CERTAIN if is_clear and signs > 1 else Confidence.LIKELY,
            detail=floods[0].name,
        )
    argument.need("how long the other callers wait", "the same without that caller")
    return argument.verdict(Confidence.POSSIBLE, detail=floods[0].name)


def _is_flood(shares: Shares) -> bool:
    return shares.share >= (_MOST_OF_TWO if shares.num_callers < 3 else _MOST)


def _is_paid_by_others(argument: Argument, window: Window, name: str) -> int:
    """How many signs there are that others pay, and not the one with its own requests."""
    signs = 0
    for fact in pains_of(window):
        argument.fact(fact)
        is_table = len(written_members(fact)) > 1
        signs += int(_hurts(fact) and not is_table and not _is_of(fact, name))
    for fact in window.facts:
        if re.search(PAIN, plain(fact.key)) and _is_told_of_others(fact, name):
            signs += 1
    return signs


def _hurts(fact: Fact) -> bool:
    """A wait that somebody notices, or a count above zero; a text tells of something."""
    value = number_of(fact)
    if value is None:
        return fact.raw.strip() not in ("", "0")
    return value >= _NOTICED_SECONDS if fact.unit is Unit.SECONDS else value > 0


def _is_of(fact: Fact, name: str) -> bool:
    """The key names the one caller and no others."""
    key = f" {plain(fact.key)} "
    return f" {plain(name)} " in key and not re.search(r"\b(others?|rest|victims?)\b", key)


def _is_told_of_others(fact: Fact, name: str) -> bool:
    """One of several in a table of waits or refusals, or the table itself as a text."""
    if fact.part is not None:
        return fact.part != name and _hurts(fact)
    is_time = fact.unit is Unit.SECONDS or re.search(r"\bs\b", plain(fact.key)) is not None
    bound = _NOTICED_SECONDS if is_time else 1.0
    return any(who != name and value >= bound for who, value, _ in written_members(fact))


_NOTICED_SECONDS = 1.0
"""Until something comes: people who chat take less for an answer at once."""


def _waits(argument: Argument, now: Activity) -> bool:
    """Somebody does; whose requests they are, no engine says."""
    backlog = now.backlog
    if backlog is None or backlog.max <= 0:
        return False
    argument.series(backlog, "they wait")
    running = 0.0 if now.running is None else now.running.last.value
    return backlog.last.value > FEW_WAIT * running


def _others_wait(argument: Argument, now: Activity, floods: list[Shares], waits: bool) -> bool:
    """In one queue with the one, where enough of what is there is theirs."""
    is_beside = any(shares.is_held and shares.share < 1 for shares in floods)
    is_shared = any(shares.share <= 1 - _SOME_OTHERS for shares in floods)
    if waits and (is_beside or _is_gone_without(now.window)):
        return True
    return is_shared and _everybody_waits(argument, now)


def _everybody_waits(argument: Argument, now: Activity) -> bool:
    """The queue is longer than the batch, or a wait is told of nobody in particular."""
    backlog, running = now.backlog, now.running
    if backlog is not None and running is not None and backlog.last.value > running.last.value > 0:
        return True
    for fact in told_all(now.window, _WAITS, without=rf"{_NOT_BESIDE}|{CALLER}"):
        if fact.part is None and fact.unit is Unit.SECONDS and _hurts(fact):
            argument.fact(fact, "whoever asks")
            return True
    return False


_SOME_OTHERS = 0.05
"""Of what there is: with fewer, the one is who the service is for."""


def _is_gone_without(window: Window) -> bool:
    """Without the one nobody would notice a wait."""
    return any(
        fact.unit is Unit.SECONDS and (number_of(fact) is not None) and not _hurts(fact)
        for fact in told_all(window, _ALONE)
    )


def _refusals(argument: Argument, window: Window) -> int:
    """How many kinds of them were told, of whomever."""
    found = [
        fact
        for fact in told_all(window, r"rejected|429|503|timeouts?")
        if (number_of(fact) or 0.0) > 0
    ]
    for fact in found:
        argument.fact(fact)
    return len(found)


def _is_worse_than_before(argument: Argument, window: Window) -> int:
    """How many signs of that: a wait that was short before, whoever made it long."""
    found = [
        contrast
        for contrast in contrasts(window, r"wait|ttft|latency|queue|delay|p9\d|p50")
        if contrast.factor >= _WORSE
    ]
    for contrast in found:
        argument.says(f"{contrast.says}: {number(contrast.factor)} times as long")
    return int(bool(found))


def _is_proven(argument: Argument, window: Window) -> bool | None:
    """Whether the others wait much less without the one; None where nobody knows."""
    alone = [fact for fact in told_all(window, _ALONE) if number_of(fact) is not None]
    known = False
    for fact in alone:
        beside = told_all(window, _WAITS, without=_NOT_BESIDE)
        values = [
            value
            for each in beside
            if _is_same_wait(fact, each) and (value := number_of(each)) is not None
        ]
        argument.fact(fact, "the others' wait without that caller")
        if not values:
            continue
        known = True
        without = number_of(fact) or 0.0
        if max(values) >= _WORSE * without and max(values) > 0:
            argument.says(f"with it the others wait {number(max(values))} s")
            return True
    return False if known else None


def _is_same_wait(one: Fact, two: Fact) -> bool:
    """Both tell of the same stretch of a request, and of the same of its percentiles if of any."""
    told = [set(re.findall(_WAITS, plain(fact.key))) for fact in (one, two)]
    same_part = one.quantile == two.quantile or None in (one.quantile, two.quantile)
    return bool(told[0] & told[1]) and one.unit is two.unit and same_part


_WAITS = r"\b(?:wait|ttft|latency|delay)\b"
_ALONE = rf"{_WAITS}.*\b(without|alone)\b|\b(without|alone)\b.*{_WAITS}"
_NOT_BESIDE = r"\b(without|alone|before|yesterday|ago|baseline|usual|usually|limit|max)\b"


def _cite_load(argument: Argument, now: Activity) -> None:
    argument.series(now.running)
    argument.series(now.kv)
    argument.series(now.in_flight)
    argument.series(now.window.find(Signal.PREEMPTIONS))
    seats = now.seats
    if seats is not None:
        argument.says(f"{number(seats)} seats")
    for fact in told_all(now.window, r"fairness|rate limit|quota|policy|without|limit"):
        argument.fact(fact)


FLOOD = Rule(
    id="tenant-flood",
    mechanism=Mechanism.TENANT_FLOOD,
    judge=_judge,
    needs=("requests, tokens or seats by caller", "waits by caller"),
    told_apart=(
        "From queue.overload by one caller who has most of it, in requests, tokens or seats; from "
        "queue.retry_storm by requests that are no retries; from policy.rejecting by others who "
        "pay."
    ),
    remedy=(
        "A cap on what one caller has in flight or in tokens, or fair queueing by tokens: the rest "
        "then goes to whoever sends much."
    ),
    hides=(
        "More replicas make it short until the one caller sends more; a limit on requests a minute "
        "does not see few and long ones."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.POLICY_REJECTING,
            Mechanism.CACHE_THRASH,
            Mechanism.CACHE_GROWN_CONTEXTS,
            Mechanism.QUEUE_HEAD_OF_LINE,
            Mechanism.INTERFERENCE_PREFILL,
            Mechanism.ROUTING_SKEW,
        }
    ),
)
