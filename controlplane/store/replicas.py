"""Replicas and their history: who ran what, from when until when, and why it changed.

Liveness is not kept here; only transitions are, so that thousands of heartbeats are no
commits.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session, aliased

from controlplane.store.tables import ReplicaRow, ReplicaTransitionRow
from dataplane.engine import ReplicaSpec
from dataplane.unreadable import unreadable_spec

_MAX_REASON = 1024


class ReplicaState(StrEnum):
    """Where a replica stands."""

    STARTING = "starting"
    READY = "ready"
    """It generated a token, and may be sent traffic."""
    UNREACHABLE = "unreachable"
    """In the history alone: an attached endpoint that is ready and that no gateway reaches, or that
    is only observed and does not answer."""
    DRAINING = "draining"
    """It gets no new traffic and is about to end."""
    STOPPED = "stopped"
    """It ended because it was meant to."""
    FAILED = "failed"
    """It ended though it was wanted."""


ENDED = frozenset({ReplicaState.STOPPED, ReplicaState.FAILED})

# state -> what may follow.
TRANSITIONS: Mapping[ReplicaState, frozenset[ReplicaState]] = {
    ReplicaState.STARTING: frozenset({ReplicaState.READY, ReplicaState.DRAINING}) | ENDED,
    ReplicaState.READY: frozenset({ReplicaState.DRAINING}) | ENDED,
    ReplicaState.UNREACHABLE: frozenset(),
    ReplicaState.DRAINING: ENDED,
    ReplicaState.STOPPED: frozenset(),
    ReplicaState.FAILED: frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplica:
    """One replica as the database knows it."""

    spec: ReplicaSpec
    spec_digest: str
    launcher: str
    state: ReplicaState
    reason: str
    """Of its last transition."""
    address: str | None
    metrics_address: str | None
    start_stages: dict[str, float]
    """Seconds by stage."""
    unobservable_stages: tuple[str, ...]
    """Those that its engine does not show."""
    created_at_unix_ns: int
    rollout: int | None = None
    """Whose candidate it was started for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTransition:
    """One line of the history."""

    replica_id: str
    deployment: str
    state: ReplicaState
    reason: str
    at_unix_ns: int


def add_replica(
    session: Session,
    spec: ReplicaSpec,
    *,
    spec_digest: str,
    launcher: str,
    reason: str,
    now_unix_ns: int,
    rollout: int | None = None,
) -> None:
    """A replica is about to be started. Its id must never have been used before."""
    session.add(
        ReplicaRow(
            replica_id=spec.replica_id,
            deployment=spec.deployment,
            launcher=launcher,
            spec=msgspec.to_builtins(spec),
            spec_digest=spec_digest,
            state=ReplicaState.STARTING.value,
            address=None,
            metrics_address=None,
            start_stages={},
            rollout=rollout,
            fencing_token=spec.fencing_token or None,
            created_at_unix_ns=now_unix_ns,
        )
    )
    session.flush()
    _note(session, spec.replica_id, ReplicaState.STARTING, reason, now_unix_ns)


def move_replica(
    session: Session, replica_id: str, state: ReplicaState, *, reason: str, now_unix_ns: int
) -> None:
    """Enter a transition into the history.

    Raises LookupError for an unknown replica, ValueError for a transition that cannot be.
    """
    row = _get(session, replica_id)
    if state not in TRANSITIONS[ReplicaState(row.state)]:
        raise ValueError(f"replica {replica_id} cannot become {state}: it is {row.state}")
    row.state = state.value
    _note(session, replica_id, state, reason, now_unix_ns)


def note_adoption(session: Session, replica_id: str, *, reason: str, now_unix_ns: int) -> None:
    """A later control plane took the replica over: a line in the history, no change of state."""
    row = _get(session, replica_id)
    _note(session, replica_id, ReplicaState(row.state), reason, now_unix_ns)


def note_reach(
    session: Session, replica_id: str, *, is_reached: bool, reason: str, now_unix_ns: int
) -> None:
    """An attached endpoint was lost, or is there again: a line in the history, no new state."""
    state = ReplicaState(_get(session, replica_id).state) if is_reached else _UNREACHED
    _note(session, replica_id, state, reason, now_unix_ns)


def note_restart(session: Session, replica_id: str, *, reason: str, now_unix_ns: int) -> None:
    """The process behind an attached endpoint is another one: a line in the history, no new
    state."""
    state = ReplicaState(_get(session, replica_id).state)
    _note(session, replica_id, state, reason, now_unix_ns)


def note_remains(session: Session, replica_id: str, *, reason: str, now_unix_ns: int) -> None:
    """Something of it outlived it, and was ended: a line in the history, no new state."""
    state = ReplicaState(_get(session, replica_id).state)
    _note(session, replica_id, state, reason, now_unix_ns)


def find_state(session: Session, replica_id: str) -> ReplicaState | None:
    """Where it stands, or how it ended; None: no replica ever had that id."""
    row = session.get(ReplicaRow, replica_id)
    return None if row is None else ReplicaState(row.state)


_UNREACHED = ReplicaState.UNREACHABLE


def set_addresses(
    session: Session,
    replica_id: str,
    *,
    address: str,
    metrics_address: str | None,
    start_stages: Mapping[str, float],
    unobservable_stages: Sequence[str] = (),
) -> None:
    """Where a replica serves, and what its start cost. Raises LookupError when it is unknown."""
    row = _get(session, replica_id)
    row.address = address
    row.metrics_address = metrics_address
    row.start_stages = {**start_stages, **dict.fromkeys(unobservable_stages)}


def measured_stages(stored: Mapping[str, float | None]) -> dict[str, float]:
    """Seconds by stage of a start, without those that were not seen."""
    return {stage: seconds for stage, seconds in stored.items() if seconds is not None}


def unobservable_stages(stored: Mapping[str, float | None]) -> tuple[str, ...]:
    """The stages that were not seen: they stand there without seconds."""
    return tuple(stage for stage, seconds in stored.items() if seconds is None)


def newest_token(session: Session) -> int:
    """The greatest fencing token that any replica ever had; 0: none had one."""
    return session.scalar(select(func.max(ReplicaRow.fencing_token))) or 0


def is_id_used(session: Session, replica_id: str) -> bool:
    """A replica had this id at any time."""
    known = select(ReplicaRow.replica_id).where(ReplicaRow.replica_id == replica_id)
    return session.scalar(known) is not None


def list_unended(session: Session) -> list[StoredReplica]:
    """Every replica that has not ended as far as the database knows, by id."""
    its = aliased(ReplicaTransitionRow)
    newest = (
        select(func.max(its.id))
        .where(its.replica_id == ReplicaRow.replica_id)
        .correlate(ReplicaRow)
        .scalar_subquery()
    )
    rows = session.execute(
        select(ReplicaRow, ReplicaTransitionRow.reason)
        .join(ReplicaTransitionRow, ReplicaTransitionRow.id == newest)
        .where(ReplicaRow.state.not_in([state.value for state in ENDED]))
        .order_by(ReplicaRow.replica_id)
    )
    return [_read(row, reason) for row, reason in rows]


def list_transitions(
    session: Session, *, deployment: str | None = None, limit: int = 100
) -> list[ReplicaTransition]:
    """The history of one deployment's replicas, or of all, newest first."""
    return _read_transitions(session, _transitions_of(deployment), limit)


def list_transitions_between(
    session: Session, start_unix_ns: int, end_unix_ns: int, deployment: str | None, limit: int
) -> list[ReplicaTransition]:
    """The part of the history that lies within a time, newest first."""
    query = _transitions_of(deployment).where(
        ReplicaTransitionRow.at_unix_ns >= start_unix_ns,
        ReplicaTransitionRow.at_unix_ns < end_unix_ns,
    )
    return _read_transitions(session, query, limit)


def find_last_failure(session: Session, deployment: str) -> ReplicaTransition | None:
    """How the last replica of it failed, if none has become ready since."""
    telling = [ReplicaState.READY.value, ReplicaState.FAILED.value]
    query = _transitions_of(deployment).where(ReplicaTransitionRow.state.in_(telling))
    last = next(iter(_read_transitions(session, query, limit=1)), None)
    return last if last is not None and last.state is ReplicaState.FAILED else None


def find_loss(session: Session, replica_id: str) -> ReplicaTransition | None:
    """Since when one that is attached is unreachable; None: it is not."""
    query = _transitions_of(None).where(ReplicaTransitionRow.replica_id == replica_id)
    last = next(iter(_read_transitions(session, query, limit=1)), None)
    return last if last is not None and last.state is ReplicaState.UNREACHABLE else None


def _transitions_of(deployment: str | None) -> Select[ReplicaTransitionRow, str]:
    query = select(ReplicaTransitionRow, ReplicaRow.deployment).join(
        ReplicaRow, ReplicaRow.replica_id == ReplicaTransitionRow.replica_id
    )
    return query if deployment is None else query.where(ReplicaRow.deployment == deployment)


def _read_transitions(
    session: Session, query: Select[ReplicaTransitionRow, str], limit: int
) -> list[ReplicaTransition]:
    rows = session.execute(query.order_by(ReplicaTransitionRow.id.desc()).limit(limit))
    return [
        ReplicaTransition(
            replica_id=row.replica_id,
            deployment=name,
            state=ReplicaState(row.state),
            reason=row.reason,
            at_unix_ns=row.at_unix_ns,
        )
        for row, name in rows
    ]


def _get(session: Session, replica_id: str) -> ReplicaRow:
    with session.no_autoflush:  # many changes at once are written together
        row = session.get(ReplicaRow, replica_id)
    if row is None:
        raise LookupError(f"the database knows no replica {replica_id}")
    return row


def _note(session: Session, replica_id: str, state: ReplicaState, reason: str, now: int) -> None:
    session.add(
        ReplicaTransitionRow(
            replica_id=replica_id,
            state=state.value,
            reason=reason[:_MAX_REASON],
            at_unix_ns=now,
        )
    )


def _read(row: ReplicaRow, reason: str) -> StoredReplica:
    spec, digest = _read_spec(row)
    return StoredReplica(
        spec=spec,
        spec_digest=digest,
        launcher=row.launcher,
        state=ReplicaState(row.state),
        reason=reason,
        address=row.address,
        metrics_address=row.metrics_address,
        start_stages=measured_stages(row.start_stages),
        unobservable_stages=unobservable_stages(row.start_stages),
        created_at_unix_ns=row.created_at_unix_ns,
        rollout=row.rollout,
    )


def _read_spec(row: ReplicaRow) -> tuple[ReplicaSpec, str]:
    """With its digest. One that cannot be read matches nothing, so its replica is replaced."""
    spec: dict[str, Any] = row.spec
    try:
        return msgspec.convert(spec, type=ReplicaSpec), row.spec_digest
    except msgspec.ValidationError:
        return unreadable_spec(row.replica_id, row.deployment), ""
