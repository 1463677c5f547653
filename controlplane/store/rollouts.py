"""Rollouts: beginning one, moving it, and what there is of them.

Every move is written with its audit line in the unit of work that also moves its deployment: a
process that is killed at any moment leaves a rollout at one step or at the next, never between.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.rollouts.machine import Progress, RolloutState, begin
from controlplane.rollouts.strategy import Strategy
from controlplane.specs.rollout import RolloutSpec
from controlplane.store.audit import record_change
from controlplane.store.request_rows import storable
from controlplane.store.revision import Revision
from controlplane.store.revision_cache import read_revisions
from controlplane.store.rollout_tables import RolloutMoveRow, RolloutRow

BY_ITSELF = "pilothouse"
"""The actor of a move that nobody asked for."""
_LONGEST_REASON = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRevisions:
    """What makes one arm of a deployment."""

    model: Revision
    engine_config: Revision
    policy: Revision

    @property
    def all(self) -> tuple[Revision, Revision, Revision]:
        """In the order of a Deployment's fields."""
        return self.model, self.engine_config, self.policy

    @property
    def ids(self) -> tuple[int, int, int]:
        """Arms with the same are the same."""
        return self.model.id, self.engine_config.id, self.policy.id


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRollout:
    """One rollout, under way or over."""

    number: int
    deployment: str
    stable: ArmRevisions
    """What ran when it began."""
    candidate: ArmRevisions
    spec: RolloutSpec
    progress: Progress
    created_by: str
    created_reason: str
    created_at_unix_ns: int
    ended_at_unix_ns: int | None

    @property
    def strategy(self) -> Strategy:
        """Its steps."""
        return self.spec.strategy

    @property
    def has_own_replicas(self) -> bool:
        """The candidate is another model or another engine config, and not another policy alone."""
        return self.stable.ids[:2] != self.candidate.ids[:2]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutMove:
    """One line of a rollout's history."""

    state: RolloutState
    step: int
    actor: str
    reason: str
    comparisons: list[dict[str, Any]] | None
    """What was measured, as it is shown; None: nothing had been."""
    standings: list[dict[str, Any]] | None
    """How the arms stood to the contract, as it is shown; None as above."""
    shadow: dict[str, Any] | None
    """What a policy that only looked on had come to, as it is shown; None: none did."""
    at_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What a move was decided by, as it is kept and shown (`rollouts.told`)."""

    comparisons: Sequence[dict[str, Any]]
    standings: Sequence[dict[str, Any]]
    shadow: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRollout:
    """What is to begin."""

    deployment: str
    stable: ArmRevisions
    candidate: ArmRevisions
    spec: RolloutSpec


def begin_rollout(
    session: Session, wanted: NewRollout, *, actor: str, reason: str, now_unix_ns: int
) -> StoredRollout:
    """Enter one. Raises IntegrityError where one of that deployment is under way."""
    progress = begin(now_unix_ns)
    stable, candidate = wanted.stable.ids, wanted.candidate.ids
    row = RolloutRow(
        deployment=wanted.deployment,
        stable_model_id=stable[0],
        stable_engine_config_id=stable[1],
        stable_policy_id=stable[2],
        candidate_model_id=candidate[0],
        candidate_engine_config_id=candidate[1],
        candidate_policy_id=candidate[2],
        spec=wanted.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        step_since_unix_ns=progress.step_since_unix_ns,
        created_by=storable(actor, 128),
        created_reason=storable(reason, _LONGEST_REASON),
        created_at_unix_ns=now_unix_ns,
        **_columns(progress),
    )
    session.add(row)
    session.flush()
    _note(session, row, progress, actor, None, now_unix_ns)
    _audit(session, row, "begin", actor, reason, None, now_unix_ns)
    return _read(row, _revisions(session, [row]))


def move_rollout(
    session: Session,
    rollout: StoredRollout,
    progress: Progress,
    *,
    actor: str = BY_ITSELF,
    measured: Measured | None = None,
    now_unix_ns: int,
) -> StoredRollout:
    """Where it is from now on. Raises StaleRolloutError where it is not where it was read."""
    row = session.get(RolloutRow, rollout.number, with_for_update=True, populate_existing=True)
    if row is None or _progress(row) != rollout.progress:
        raise StaleRolloutError(f"rollout {rollout.number} has moved meanwhile: look again")
    before = row.state, row.step
    row.step_since_unix_ns = progress.step_since_unix_ns
    for name, value in _columns(progress).items():
        setattr(row, name, value)
    if progress.state.is_over:
        row.ended_at_unix_ns = now_unix_ns
    _note(session, row, progress, actor, measured, now_unix_ns)
    _audit(session, row, _verb(progress), actor, progress.reason, before, now_unix_ns)
    return _read(row, _revisions(session, [row]))


class StaleRolloutError(RuntimeError):
    """Somebody else moved it first. Nothing was stored."""


def find_rollout(session: Session, number: int) -> StoredRollout | None:
    """The one with that number, or None."""
    row = session.get(RolloutRow, number)
    return None if row is None else _read(row, _revisions(session, [row]))


def find_last(session: Session, deployment: str) -> StoredRollout | None:
    """The newest of a deployment, under way or over, or None."""
    found = list_rollouts(session, deployment=deployment, limit=1)
    return found[0] if found else None


def list_living(session: Session) -> list[StoredRollout]:
    """All that are under way, by deployment."""
    query = select(RolloutRow).where(RolloutRow.ended_at_unix_ns.is_(None))
    return _read_all(session, session.scalars(query.order_by(RolloutRow.deployment)).all())


def list_rollouts(
    session: Session, *, deployment: str | None = None, limit: int = 100
) -> list[StoredRollout]:
    """The newest first."""
    query = select(RolloutRow).order_by(RolloutRow.number.desc()).limit(limit)
    if deployment is not None:
        query = query.where(RolloutRow.deployment == deployment)
    return _read_all(session, session.scalars(query).all())


def list_moves(session: Session, number: int) -> list[RolloutMove]:
    """A rollout's history, oldest first."""
    query = select(RolloutMoveRow).where(RolloutMoveRow.rollout == number)
    return [
        RolloutMove(
            state=RolloutState(row.state),
            step=row.step,
            actor=row.actor,
            reason=row.reason,
            comparisons=row.comparisons,
            standings=row.standings,
            shadow=row.shadow,
            at_unix_ns=row.at_unix_ns,
        )
        for row in session.scalars(query.order_by(RolloutMoveRow.id))
    ]


def _columns(progress: Progress) -> dict[str, Any]:
    return {
        "state": progress.state.value,
        "step": progress.step,
        "is_let_through": progress.is_let_through,
        "reason": storable(progress.reason, _LONGEST_REASON),
    }


def _progress(row: RolloutRow) -> Progress:
    return Progress(
        state=RolloutState(row.state),
        step=row.step,
        step_since_unix_ns=row.step_since_unix_ns,
        reason=row.reason,
        is_let_through=row.is_let_through,
    )


def _verb(progress: Progress) -> str:
    match progress.state:
        case RolloutState.PROMOTED:
            return "promote"
        case RolloutState.ABORTED:
            return "abort"
        case RolloutState.PAUSED:
            return "pause"
        case RolloutState.RUNNING | RolloutState.WAITING:
            return "step"


def _note(
    session: Session,
    row: RolloutRow,
    progress: Progress,
    actor: str,
    measured: Measured | None,
    now_unix_ns: int,
) -> None:
    session.add(
        RolloutMoveRow(
            rollout=row.number,
            state=progress.state.value,
            step=progress.step,
            actor=storable(actor, 128),
            reason=storable(progress.reason, _LONGEST_REASON),
            comparisons=None if measured is None else list(measured.comparisons),
            standings=None if measured is None else list(measured.standings),
            shadow=None if measured is None else measured.shadow,
            at_unix_ns=now_unix_ns,
        )
    )


def _audit(
    session: Session,
    row: RolloutRow,
    verb: str,
    actor: str,
    reason: str,
    before: tuple[str, int] | None,
    now_unix_ns: int,
) -> None:
    record_change(
        session,
        actor=actor,
        action=f"rollout.{verb}",
        subject=f"rollout/{row.deployment}/{row.number}",
        reason=reason,
        before=None if before is None else {"state": before[0], "step": before[1]},
        after={"state": row.state, "step": row.step},
        clock=lambda: now_unix_ns,
    )


def _read_all(session: Session, rows: Sequence[RolloutRow]) -> list[StoredRollout]:
    revisions = _revisions(session, rows)
    return [_read(row, revisions) for row in rows]


def _revisions(session: Session, rows: Iterable[RolloutRow]) -> dict[int, Revision]:
    wanted = {
        number for row in rows for ids in (_stable_ids(row), _candidate_ids(row)) for number in ids
    }
    return read_revisions(session, wanted)


def _stable_ids(row: RolloutRow) -> tuple[int, int, int]:
    return row.stable_model_id, row.stable_engine_config_id, row.stable_policy_id


def _candidate_ids(row: RolloutRow) -> tuple[int, int, int]:
    return row.candidate_model_id, row.candidate_engine_config_id, row.candidate_policy_id


def _arm(ids: tuple[int, int, int], revisions: dict[int, Revision]) -> ArmRevisions:
    model, engine_config, policy = (revisions[number] for number in ids)
    return ArmRevisions(model=model, engine_config=engine_config, policy=policy)


def _read(row: RolloutRow, revisions: dict[int, Revision]) -> StoredRollout:
    return StoredRollout(
        number=row.number,
        deployment=row.deployment,
        stable=_arm(_stable_ids(row), revisions),
        candidate=_arm(_candidate_ids(row), revisions),
        spec=RolloutSpec.model_validate(row.spec, strict=False),
        progress=_progress(row),
        created_by=row.created_by,
        created_reason=row.created_reason,
        created_at_unix_ns=row.created_at_unix_ns,
        ended_at_unix_ns=row.ended_at_unix_ns,
    )
