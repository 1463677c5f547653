"""A deployment's replicas over time: who was there, in which state, from when until when."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.store.replicas import (
    ENDED,
    ReplicaState,
    measured_stages,
    unobservable_stages,
)
from controlplane.store.tables import ReplicaRow, ReplicaTransitionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpan:
    """One state of one replica. `until_unix_ns` is None while it lasts."""

    state: ReplicaState
    reason: str
    since_unix_ns: int
    until_unix_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLane:
    """One replica, alive or gone."""

    replica_id: str
    launcher: str
    engine: str
    model_revision: str
    engine_config_revision: str
    address: str | None
    metrics_address: str | None
    start_stages: dict[str, float]
    """Seconds by stage, as far as the start came."""
    unobservable_stages: tuple[str, ...]
    """Those that its engine does not show."""
    spans: list[StateSpan]
    """Oldest first, without gaps. An ended replica's last one never closes."""

    @property
    def last(self) -> StateSpan:
        """Where it stands, or how it ended."""
        return self.spans[-1]

    def at(self, unix_ns: int) -> StateSpan | None:
        """Where it stood at that instant; None before it existed."""
        return next((each for each in reversed(self.spans) if each.since_unix_ns <= unix_ns), None)


def list_lanes(
    session: Session, deployment: str, start_unix_ns: int, end_unix_ns: int, limit: int
) -> list[ReplicaLane]:
    """Replicas that were there at any moment of the time given, newest first, at most `limit`."""
    ended = [state.value for state in ENDED]
    ended_before = (
        select(ReplicaTransitionRow.id)
        .where(
            ReplicaTransitionRow.replica_id == ReplicaRow.replica_id,
            ReplicaTransitionRow.state.in_(ended),
            ReplicaTransitionRow.at_unix_ns < start_unix_ns,
        )
        .exists()
    )
    rows = session.scalars(
        select(ReplicaRow)
        .where(
            ReplicaRow.deployment == deployment,
            ReplicaRow.created_at_unix_ns < end_unix_ns,
            ~ended_before,
        )
        .order_by(ReplicaRow.created_at_unix_ns.desc(), ReplicaRow.replica_id.desc())
        .limit(limit)
    ).all()
    spans = _spans(session, [row.replica_id for row in rows])
    return [_read(row, spans[row.replica_id]) for row in rows if row.replica_id in spans]


def _spans(session: Session, replica_ids: list[str]) -> dict[str, list[StateSpan]]:
    found: dict[str, list[StateSpan]] = {}
    rows = session.scalars(
        select(ReplicaTransitionRow)
        .where(ReplicaTransitionRow.replica_id.in_(replica_ids))
        .order_by(ReplicaTransitionRow.id)
    )
    for row in rows:
        spans = found.setdefault(row.replica_id, [])
        if spans:
            last = spans[-1]
            spans[-1] = StateSpan(
                state=last.state,
                reason=last.reason,
                since_unix_ns=last.since_unix_ns,
                until_unix_ns=row.at_unix_ns,
            )
        spans.append(
            StateSpan(
                state=ReplicaState(row.state),
                reason=row.reason,
                since_unix_ns=row.at_unix_ns,
                until_unix_ns=None,
            )
        )
    return found


def _read(row: ReplicaRow, spans: list[StateSpan]) -> ReplicaLane:
    spec = row.spec

    def said(field: str) -> str:
        return str(spec.get(field) or "unknown")

    return ReplicaLane(
        replica_id=row.replica_id,
        launcher=row.launcher,
        engine=said("engine"),
        model_revision=said("model_revision"),
        engine_config_revision=said("engine_config_revision"),
        address=row.address,
        metrics_address=row.metrics_address,
        start_stages=measured_stages(row.start_stages),
        unobservable_stages=unobservable_stages(row.start_stages),
        spans=spans,
    )
