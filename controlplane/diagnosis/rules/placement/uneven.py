"""One replica does most of the work, and the others have places free."""

from collections.abc import Mapping

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.placement.halves import halves_of
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import Fleet, Replica, fleet_of, mean_of
from controlplane.diagnosis.views.pool import are_one_pool
from controlplane.diagnosis.views.standstill import standstill_of
from controlplane.diagnosis.views.stepless import need_of_stepless
from controlplane.diagnosis.views.token_work import stretch_of, works_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_RECENT_SECONDS = 30.0
_TIMES_MEAN = 2.5
"""The batch of one against the mean of the others: chance spreads tens of requests within half."""
_WORK_SHARE = 1.6
"""Of a fair share of the tokens: whoever is only slower does not do more."""
_LEAST_RUNNING = 3.0


def judge(window: Window) -> Verdict | None:
    """LIKELY where one runs several times what the others do and also does most of the work.
    POSSIBLE where nobody sees who does it, or another has requests and does nothing."""
    fleet = fleet_of(window)
    if fleet is None or halves_of(window) is not None or standstill_of(window) is not None:
        return None
    start = max(window.start, window.end - _RECENT_SECONDS)
    if window.end - start < _RECENT_SECONDS:
        return None
    running = _running_of(fleet, start)
    if len(running) < len(fleet.replicas):
        return None
    top = max(fleet.replicas, key=lambda each: running[each.name])
    others = [running[each.name] for each in fleet.others(top)]
    rest = sum(others) / len(others)
    if running[top.name] < max(_LEAST_RUNNING, _TIMES_MEAN * rest):
        return None
    made = _made(fleet)
    if not made:
        return None
    work = _work_of(made, window, start)
    if work is not None and _share(work[1], top) < min(_WORK_SHARE / len(fleet.replicas), 0.9):
        return None
    return _argued(fleet, running, top, work)


_Work = tuple[str, Mapping[str, float]]
"""Its unit, and how much each replica did."""


def _running_of(fleet: Fleet, start: float) -> Mapping[str, float]:
    """On average, of each replica that tells it."""
    means = {
        each.name: mean_of(each.find(Signal.RUNNING), start, fleet.window.end)
        for each in fleet.replicas
    }
    return {name: mean for name, mean in means.items() if mean is not None}


def _argued(
    fleet: Fleet, running: Mapping[str, float], top: Replica, work: _Work | None
) -> Verdict:
    argument = Argument(fleet.window)
    told = ", ".join(f"{name} {number(mean)}" for name, mean in running.items())
    argument.says(f"running on average of the last {_RECENT_SECONDS:g} s: {told}")
    if work is None:
        argument.need("tokens that each replica made: they are counted when an answer ends")
    else:
        argument.says(f"{top.name} does {_share(work[1], top):.0%} of all work, by {work[0]}")
        argument.against("a slow replica: it does the most, and not only has the most")
    still = need_of_stepless(fleet.window, top.name)
    if still is not None:
        argument.need(still)
    argument.series(fleet.gateway(Signal.GATEWAY_IN_FLIGHT), "no more than before")
    argument.against("queue.overload: the others have places free")
    is_pool = are_one_pool(fleet.window, running)
    if not is_pool:
        argument.need("whether each of them is meant to have as much as the others")
    is_seen = is_pool and work is not None and still is None
    confidence = Confidence.LIKELY if is_seen else Confidence.POSSIBLE
    return argument.verdict(confidence, detail=f"{top.name} has most")


def _made(fleet: Fleet) -> Mapping[str, Series]:
    """The generated tokens of each replica that counts them."""
    found = {each.name: each.find(Signal.GENERATION_TOKENS) for each in fleet.replicas}
    return {name: series for name, series in found.items() if series is not None}


def _work_of(made: Mapping[str, Series], window: Window, start: float) -> _Work | None:
    """None where it cannot be seen of each."""
    found = works_of([stretch_of(each, window, start, window.end) for each in made.values()])
    return None if found is None else (found[0], dict(zip(made, found[1], strict=True)))


def _share(work: Mapping[str, float], top: Replica) -> float:
    whole = sum(work.values())
    return work.get(top.name, 0.0) / whole if whole > 0 else 0.0


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
