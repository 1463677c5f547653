"""How replicas would be replaced, by letting the operator's own plan run on its paper.

Each turn plans, ends at once what the plan stops, and lets the next that starts become ready. How
long requests take to drain is not known beforehand: it comes on top.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.operator.desired import DesiredReplicas
from controlplane.operator.plan import ActualReplica, Plan, plan_replicas

_MOST_TURNS = 5000
"""More than a deployment of the largest size takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turnover:
    """What becomes of a deployment's replicas; lengths are in starts of a replica."""

    num_stops: int
    num_starts: int
    at_a_time: int
    """The most that start at once."""
    num_ready_before: int
    least_ready: int
    """The fewest that serve meanwhile."""
    starts_until_settled: int
    """Starts that follow each other until all is as desired."""
    starts_while_short: int
    """Of these, those during which fewer serve than before or, where fewer are wanted, than
    that."""
    is_settled: bool
    """False: it does not come to an end; see `held`."""
    held: str | None
    """Why nothing more starts."""


def turn_over(desired: Sequence[DesiredReplicas], actual: Sequence[ActualReplica]) -> Turnover:
    """`desired` are the arms of one deployment, the stable one first; `actual` are its replicas."""
    own = [replace(each, is_ready=True) for each in actual if not each.is_draining]
    num_before = sum(each.is_ready and not each.is_draining for each in actual)
    wanted = min(num_before, sum(each.num_replicas for each in desired))
    stops = starts = rounds = short = at_a_time = 0
    least, plan = num_before, Plan()
    for number in range(_MOST_TURNS):
        plan = plan_replicas(desired, own, {})
        stops += len(plan.stops)
        ended = {stop.replica_id for stop in plan.stops}
        own = [each for each in own if each.replica_id not in ended]
        least = min(least, len(own))
        # What is stopped makes room: the operator plans again before anything is ready.
        begun = list(plan.starts) or list(plan_replicas(desired, own, {}).starts)
        if not begun:
            if not ended:
                break
            continue
        at_a_time = max(at_a_time, len(begun))
        starts, rounds = starts + len(begun), rounds + 1
        short += len(own) < wanted
        own += [_started(desired, start.lane, number, i) for i, start in enumerate(begun)]
    return Turnover(
        num_stops=stops,
        num_starts=starts,
        at_a_time=at_a_time,
        num_ready_before=num_before,
        least_ready=least,
        starts_until_settled=rounds,
        starts_while_short=short,
        is_settled=len(plan.settled) == len(desired),
        held=next(iter(plan.holds.values()), None),
    )


def _started(desired: Sequence[DesiredReplicas], lane: str, turn: int, index: int) -> ActualReplica:
    arm = next(each for each in desired if each.lane == lane)
    return ActualReplica(
        replica_id=f"planned-{turn}-{index}",
        deployment=arm.deployment,
        launcher=arm.launcher,
        digest=arm.digest,
        is_ready=True,
        is_draining=False,
        rollout=arm.rollout,
    )
