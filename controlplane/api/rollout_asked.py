"""What a person may ask of a rollout now, and where that would take it. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from controlplane.operator.desired import rollout_sizes
from controlplane.rollouts.arm_sizes import ArmSizes
from controlplane.rollouts.machine import (
    Demand,
    Facts,
    Progress,
    RolloutState,
    UnmetDemandError,
    begin,
    demand,
    share_of,
)
from controlplane.rollouts.verdict import Decision
from controlplane.store.deployments import DesiredDeployment
from controlplane.store.rollouts import StoredRollout
from dataplane.arm import Arm


class Asked(StrEnum):
    """A demand, or that another rollout of the same begins."""

    PROMOTE = "promote"
    """On to the next step, whatever the analysis says; after the last the candidate is what
    runs."""
    PAUSE = "pause"
    """Its share stays, and no step follows."""
    RESUME = "resume"
    """On with this step."""
    ABORT = "abort"
    """Back to what ran before."""
    RETRY = "retry"
    """Begin another, of the same revisions as one that was aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What is known beside the rollout itself."""

    now_unix_ns: int
    deployment: DesiredDeployment | None
    """Its own, as it is desired now; None: it cannot be read."""
    is_newest: bool
    """No other rollout of its deployment came after it."""
    decision: Decision | None = None
    """Of the last look at this step."""
    freeze: str | None = None
    """Why nothing may go forward."""
    force: Arm | None = None
    """The arm that an override sends all requests to."""
    num_offered: int = 0
    """Requests of the deployment in the last hour."""


def progress_after(rollout: StoredRollout, asked: Asked, situation: Situation) -> Progress:
    """Where it would be. Raises UnmetDemandError."""
    progress, now = rollout.progress, situation.now_unix_ns
    if asked is not Asked.RETRY:
        facts = Facts(now_unix_ns=now, is_candidate_ready=True, freeze=situation.freeze)
        return demand(progress, rollout.strategy, Demand(asked.value), facts)
    if progress.state is not RolloutState.ABORTED:
        raise UnmetDemandError(f"it is {progress.state}: only what was aborted is retried")
    if not situation.is_newest:
        raise UnmetDemandError(f"a newer rollout of {rollout.deployment} has been: retry that one")
    if situation.deployment is None or not _runs_stable(rollout, situation.deployment):
        raise UnmetDemandError(f"{rollout.deployment} runs something else by now: apply again")
    return begin(now)


def possible_demands(rollout: StoredRollout, situation: Situation) -> list[str]:
    """What may be asked of it now."""
    possible = []
    for asked in Asked:
        try:
            progress_after(rollout, asked, situation)
        except UnmetDemandError:
            continue
        possible.append(asked.value)
    return possible


def sizes_of(rollout: StoredRollout, deployment: DesiredDeployment | None) -> ArmSizes | None:
    """Replicas of both arms where it is; None: no replica is of one arm alone, or it is not known
    how many there should be."""
    if not rollout.has_own_replicas or deployment is None:
        return None
    match rollout.progress.state:
        case RolloutState.PROMOTED:
            return ArmSizes(0, deployment.spec.replicas)
        case RolloutState.ABORTED:
            return ArmSizes(deployment.spec.replicas, 0)
        case _:
            return rollout_sizes(deployment, rollout)


def current_share(
    rollout: StoredRollout, deployment: DesiredDeployment | None, force: Arm | None = None
) -> float:
    """What its candidate gets of the traffic, 0 to 1: no more than its part of the replicas, and
    while it is under way all or nothing where an override says so."""
    if force is not None and not rollout.progress.state.is_over:
        return 1.0 if force is Arm.CANDIDATE else 0.0
    share = share_of(rollout.progress, rollout.strategy)
    sizes = sizes_of(rollout, deployment)
    return share if sizes is None else sizes.limit(share)


def _runs_stable(rollout: StoredRollout, deployment: DesiredDeployment) -> bool:
    revisions = deployment.revisions
    running = (revisions.model.id, revisions.engine_config.id, revisions.policy.id)
    return rollout.stable.ids == running
