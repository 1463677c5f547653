"""What of a change plan is about replicas: which are replaced, for how long, whether they fit."""

from collections.abc import Mapping, Sequence

from controlplane.operator.desired import DesiredReplicas, desired_arms, desired_replicas
from controlplane.operator.observed import ObservedState
from controlplane.operator.plan import ActualReplica
from controlplane.rollouts.change_plan.change_plan import ReplicaImpact
from controlplane.rollouts.change_plan.memory_fit import MemoryFit, fit_memory
from controlplane.rollouts.change_plan.start_times import PastStart, start_times
from controlplane.rollouts.change_plan.turnover import turn_over
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.replicas import ReplicaState, StoredReplica
from dataplane.engine import EngineStats


def replica_impact(
    before: DesiredDeployment | None,
    after: DesiredDeployment,
    replicas: Sequence[StoredReplica],
    past_starts: Sequence[PastStart],
    stats: Mapping[str, EngineStats],
) -> ReplicaImpact:
    """`replicas` and `stats` may be of all deployments."""
    own = [each for each in replicas if each.spec.deployment == after.name]
    arms = desired_arms(after)
    stable, started = arms[0], arms[-1]
    turnover = turn_over(arms, [_actual(each) for each in own])
    times = start_times(past_starts, started.template, started.digest)
    seconds = None if times is None else times.median
    return ReplicaImpact(
        digest_before=None if before is None else desired_replicas(before).digest,
        digest_after=stable.digest,
        digest_candidate=started.digest if len(arms) > 1 else None,
        max_surge=after.spec.replacement.max_surge,
        max_unavailable=after.spec.replacement.max_unavailable,
        turnover=turnover,
        start_times=times,
        seconds_until_settled=_seconds(turnover.starts_until_settled, seconds),
        seconds_short=_seconds(turnover.starts_while_short, seconds),
        fits=_fits(own, started, stats),
        problem=started.problem,
    )


def freshest_stats(observed: ObservedState) -> dict[str, EngineStats]:
    """What each replica last told of itself, by any gateway."""
    found: dict[str, tuple[float, EngineStats]] = {}
    for report, age in observed.gateways():
        for replica in report.replicas:
            if replica.stats is None:
                continue
            told = age + replica.stats.age_seconds
            if replica.replica_id not in found or told < found[replica.replica_id][0]:
                found[replica.replica_id] = (told, replica.stats)
    return {replica_id: stats for replica_id, (_, stats) in found.items()}


def _seconds(num_starts: int, each: float | None) -> float | None:
    """None: not known; without a start there is nothing to know."""
    if not num_starts:
        return 0.0
    return None if each is None else num_starts * each


def _fits(
    own: Sequence[StoredReplica], started: DesiredReplicas, stats: Mapping[str, EngineStats]
) -> tuple[MemoryFit, ...]:
    """For the devices of replicas that run from another spec than what would start."""
    return tuple(
        fit_memory(
            each.spec.replica_id, each.spec, started.template, stats.get(each.spec.replica_id)
        )
        for each in own
        if each.state is not ReplicaState.DRAINING and each.spec_digest != started.digest
    )


def _actual(replica: StoredReplica) -> ActualReplica:
    return ActualReplica(
        replica_id=replica.spec.replica_id,
        deployment=replica.spec.deployment,
        launcher=replica.launcher,
        digest=replica.spec_digest,
        is_ready=replica.state is ReplicaState.READY,
        is_draining=replica.state is ReplicaState.DRAINING,
        rollout=replica.rollout,
    )
