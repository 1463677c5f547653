"""Moves of rollouts within a span of time: what changed when, for charts and incidents."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.rollouts.machine import RolloutState
from controlplane.specs.rollout import RolloutSpec
from controlplane.store.rollout_tables import RolloutMoveRow, RolloutRow


@dataclass(frozen=True, slots=True, kw_only=True)
class DatedMove:
    """One move of one rollout."""

    rollout: int
    deployment: str
    state: RolloutState
    step: int
    """From 0."""
    share: float
    """The candidate's, that this step has, 0 to 1."""
    actor: str
    reason: str
    at_unix_ns: int


def list_moves_between(
    session: Session, start_unix_ns: int, end_unix_ns: int, deployment: str | None, limit: int
) -> list[DatedMove]:
    """Of one deployment or of all, the newest `limit`, newest first."""
    query = (
        select(RolloutMoveRow, RolloutRow)
        .join(RolloutRow, RolloutRow.number == RolloutMoveRow.rollout)
        .where(RolloutMoveRow.at_unix_ns >= start_unix_ns, RolloutMoveRow.at_unix_ns <= end_unix_ns)
        .order_by(RolloutMoveRow.id.desc())
        .limit(limit)
    )
    if deployment is not None:
        query = query.where(RolloutRow.deployment == deployment)
    return [_read(move, rollout) for move, rollout in session.execute(query)]


def _read(move: RolloutMoveRow, rollout: RolloutRow) -> DatedMove:
    spec = RolloutSpec.model_validate(rollout.spec, strict=False)
    return DatedMove(
        rollout=rollout.number,
        deployment=rollout.deployment,
        state=RolloutState(move.state),
        step=move.step,
        share=spec.strategy.steps[move.step].share,
        actor=move.actor,
        reason=move.reason,
        at_unix_ns=move.at_unix_ns,
    )
