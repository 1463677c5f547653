"""tenant.flood: one caller has most of what there is, and others wait for it."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.callers.callers import Shares, pains_of, shares_of
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.told import number_of, told_all
from controlplane.diagnosis.window import Window

_MOST_OF_TWO = 0.8
_MOST = 0.6
"""Of what there is, with three callers or more."""
_WORSE = 3.0
"""Than without the one: a wait of its own making varies less."""


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
    paid = _is_paid_for(argument, now)
    proven = _is_proven(argument, window)
    _cite_load(argument, now)
    argument.against("queue.overload: without the one caller there is room for the others")
    argument.against("queue.retry_storm: nobody says that they are retries")
    if proven:
        return argument.verdict(Confidence.CERTAIN, detail=floods[0].name)
    if paid:
        is_clear = floods[0].num_callers > 2
        return argument.verdict(
            Confidence.CERTAIN if is_clear and paid > 1 else Confidence.LIKELY,
            detail=floods[0].name,
        )
    argument.need("how long the other callers wait", "the same without that caller")
    return argument.verdict(Confidence.POSSIBLE, detail=floods[0].name)


def _is_flood(shares: Shares) -> bool:
    return shares.share >= (_MOST_OF_TWO if shares.num_callers < 3 else _MOST)


def _is_paid_for(argument: Argument, now: Activity) -> int:
    """How many signs there are that others pay."""
    signs = 0
    for fact in pains_of(now.window):
        argument.fact(fact)
        signs += 1
    backlog = now.backlog
    if backlog is not None and backlog.max > 0:
        argument.series(backlog, "they wait")
        signs += 1
    for fact in told_all(now.window, r"rejected|429|503|timeouts?"):
        value = number_of(fact)
        if value is not None and value > 0:
            argument.fact(fact)
            signs += 1
    return signs


def _is_proven(argument: Argument, window: Window) -> bool:
    """The others' wait is known without the one."""
    found = [
        contrast
        for contrast in contrasts(window, r"wait|ttft|latency|queue|delay|p9\d|p50")
        if contrast.factor >= _WORSE
    ]
    alone = told_all(window, r"(wait|ttft|latency|delay)\b.*\b(without|alone)\b")
    for fact in alone:
        argument.fact(fact, "the others' wait without that caller")
    for contrast in found:
        argument.says(f"{contrast.says}: {number(contrast.factor)} times as long with it")
    return bool(found or alone)


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
