"""One replica does most of the work, and the others have places free."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.halves import halves_of
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import Fleet, Replica, fleet_of, grown, mean_of
from controlplane.diagnosis.views.pool import are_one_pool
from controlplane.diagnosis.views.standstill import standstill_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_RECENT_SECONDS = 30.0
_TIMES_MEAN = 2.5
"""The batch of one against the mean of the others: chance spreads tens of requests within half."""
_WORK_SHARE = 1.6
"""Of a fair share of the tokens: whoever is only slower does not do more."""
_LEAST_RUNNING = 3.0


def judge(window: Window) -> Verdict | None:
    """LIKELY where one runs several times what the others do and also does most of the work."""
    fleet = fleet_of(window)
    if fleet is None or halves_of(window) is not None or standstill_of(window) is not None:
        return None
    start = max(window.start, window.end - _RECENT_SECONDS)
    if window.end - start < _RECENT_SECONDS:
        return None
    running = {
        each.name: mean
        for each in fleet.replicas
        if (mean := mean_of(each.find(Signal.RUNNING), start, window.end)) is not None
    }
    if len(running) < len(fleet.replicas):
        return None
    top = max(fleet.replicas, key=lambda each: running[each.name])
    others = [running[each.name] for each in fleet.others(top)]
    rest = sum(others) / len(others)
    share = _work_share(fleet, top, start)
    if running[top.name] < max(_LEAST_RUNNING, _TIMES_MEAN * rest) or share is None:
        return None
    if share < min(_WORK_SHARE / len(fleet.replicas), 0.9):
        return None
    argument = Argument(window)
    told = ", ".join(f"{name} {number(mean)}" for name, mean in running.items())
    argument.says(f"running on average of the last {_RECENT_SECONDS:g} s: {told}")
    argument.says(f"{top.name} selects {share:.0%} of all tokens")
    argument.series(fleet.gateway(Signal.GATEWAY_IN_FLIGHT), "no more than before")
    argument.against("a slow replica: it does the most, and not only has the most")
    argument.against("queue.overload: the others have places free")
    if not are_one_pool(window, running):
        argument.need("whether each of them is meant to have as much as the others")
        return argument.verdict(Confidence.POSSIBLE, detail=f"{top.name} has most")
    return argument.verdict(Confidence.LIKELY, detail=f"{top.name} has most")


def _work_share(fleet: Fleet, top: Replica, start: float) -> float | None:
    tokens = {
        each.name: grown(each.find(Signal.GENERATION_TOKENS), start, fleet.window.end)
        for each in fleet.replicas
    }
    whole = sum(tokens.values())
    return tokens[top.name] / whole if whole > 0 else None


UNEVEN = Rule(
    id="fleet-uneven",
    mechanism=Mechanism.ROUTING_SKEW,
    judge=judge,
    needs=("requests running and tokens of each replica over time",),
    told_apart="From one replica that is slower, which has more and does not do more; from phases, "
    "where one half never decodes.",
    remedy="Balance by what is in flight, with fresh figures; bound affinity so that a full "
    "replica passes requests on.",
    hides="More replicas idle beside the one that has the work.",
)
