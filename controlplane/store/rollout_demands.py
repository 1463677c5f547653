"""What moves a rollout, and its deployment with it: moves of its own, and what people ask for."""

from sqlalchemy.orm import Session

from controlplane.rollouts.machine import (
    Demand,
    Facts,
    Progress,
    RolloutState,
    UnmetDemandError,
    demand,
)
from controlplane.store.deployments import adopt_candidate, find_deployment
from controlplane.store.rollouts import (
    BY_ITSELF,
    Measured,
    NewRollout,
    StoredRollout,
    begin_rollout,
    find_last,
    find_rollout,
    move_rollout,
)


def advance_rollout(
    session: Session,
    rollout: StoredRollout,
    progress: Progress,
    *,
    actor: str = BY_ITSELF,
    measured: Measured | None = None,
    now_unix_ns: int,
) -> StoredRollout:
    """Move it, and with the last step its deployment. Raises StaleRolloutError."""
    moved = move_rollout(
        session, rollout, progress, actor=actor, measured=measured, now_unix_ns=now_unix_ns
    )
    if progress.state is RolloutState.PROMOTED:
        adopt_candidate(session, rollout, now_unix_ns)
    return moved


def demand_rollout(
    session: Session,
    number: int,
    asked: Demand,
    *,
    actor: str,
    reason: str,
    now_unix_ns: int,
    freeze: str | None = None,
) -> StoredRollout:
    """Do what a person asks. `freeze`: why nothing may go forward. Raises LookupError for one that
    there is not, UnmetDemandError, and StaleRolloutError."""
    rollout = find_rollout(session, number)
    if rollout is None:
        raise LookupError(f"there is no rollout {number}")
    facts = Facts(now_unix_ns=now_unix_ns, is_candidate_ready=True, freeze=freeze)
    progress = demand(rollout.progress, rollout.strategy, asked, facts, reason)
    return advance_rollout(session, rollout, progress, actor=actor, now_unix_ns=now_unix_ns)


def retry_rollout(
    session: Session, number: int, *, actor: str, reason: str, now_unix_ns: int
) -> StoredRollout:
    """Try again what was aborted, from what runs now. Raises LookupError, and UnmetDemandError
    where that is not what its deployment asks for any more."""
    before = find_rollout(session, number)
    if before is None:
        raise LookupError(f"there is no rollout {number}")
    desired, last = (
        find_deployment(session, before.deployment),
        find_last(session, before.deployment),
    )
    if last is None or desired is None or last.number != number:
        raise UnmetDemandError(f"a newer rollout of {before.deployment} has been: retry that one")
    if before.progress.state is not RolloutState.ABORTED:
        raise UnmetDemandError(f"it is {before.progress.state}: only what was aborted is retried")
    if before.stable.ids != (
        desired.revisions.model.id,
        desired.revisions.engine_config.id,
        desired.revisions.policy.id,
    ):
        raise UnmetDemandError(f"{before.deployment} runs something else by now: apply again")
    wanted = NewRollout(
        deployment=before.deployment,
        stable=before.stable,
        candidate=before.candidate,
        spec=desired.spec.rollout or before.spec,
    )
    return begin_rollout(session, wanted, actor=actor, reason=reason, now_unix_ns=now_unix_ns)
