"""Incidents as they are looked for: those of a deployment, those that are open, one whole."""

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.store.incident import (
    MAX_LISTED_SPELLS,
    IncidentEvent,
    IncidentEventKind,
    IncidentState,
    StoredFinding,
    StoredIncident,
    WholeIncident,
)
from controlplane.store.incident_rows import read_row, read_rows
from controlplane.store.incident_tables import IncidentEventRow, IncidentFindingRow, IncidentRow


def list_incidents(
    session: Session,
    *,
    deployment: str | None = None,
    state: IncidentState | None = None,
    mechanism: str | None = None,
    limit: int | None = 100,
) -> list[StoredIncident]:
    """The newest first. `limit` None: all. `deployment` empty: of the installation itself."""
    query = select(IncidentRow)
    if deployment is not None:
        query = query.where(IncidentRow.deployment == deployment)
    if state is not None:
        query = query.where(IncidentRow.state == state.value)
    if mechanism is not None:
        query = query.where(IncidentRow.mechanism == mechanism)
    query = query.order_by(IncidentRow.opened_at_unix_ns.desc(), IncidentRow.incident_id)
    return read_rows(session, session.scalars(query.limit(limit)).all(), MAX_LISTED_SPELLS)


def count_open(session: Session) -> dict[tuple[str, str], int]:
    """How many are open, by deployment and mechanism; all of them. Empty: of the installation
    itself, and told of by alerts alone."""
    rows = session.execute(
        select(IncidentRow.deployment, IncidentRow.mechanism, func.count())
        .where(IncidentRow.state == IncidentState.OPEN.value)
        .group_by(IncidentRow.deployment, IncidentRow.mechanism)
    )
    return {(deployment, mechanism): number for deployment, mechanism, number in rows}


def list_begun_between(
    session: Session, start_unix_ns: int, end_unix_ns: int, deployment: str | None, limit: int
) -> list[StoredIncident]:
    """Those that were opened within a time, the newest first."""
    query = select(IncidentRow).where(
        IncidentRow.opened_at_unix_ns >= start_unix_ns, IncidentRow.opened_at_unix_ns < end_unix_ns
    )
    if deployment is not None:
        query = query.where(IncidentRow.deployment == deployment)
    query = query.order_by(IncidentRow.opened_at_unix_ns.desc(), IncidentRow.incident_id)
    return read_rows(session, session.scalars(query.limit(limit)).all(), MAX_LISTED_SPELLS)


def list_current(
    session: Session, deployment: str | None, resolved_since_unix_ns: int
) -> list[tuple[StoredIncident, frozenset[str]]]:
    """Those of `deployment` (None: of the installation itself) that are open, and those resolved
    since, last seen first; each with the mechanisms that were found in it."""
    rows = session.scalars(
        select(IncidentRow)
        .where(IncidentRow.deployment == (deployment or ""))
        .where(
            (IncidentRow.state == IncidentState.OPEN.value)
            | (IncidentRow.resolved_at_unix_ns >= resolved_since_unix_ns)
        )
        .order_by(IncidentRow.last_seen_at_unix_ns.desc(), IncidentRow.incident_id)
    ).all()
    found = session.execute(
        select(IncidentFindingRow.incident_id, IncidentFindingRow.mechanism).where(
            IncidentFindingRow.incident_id.in_([row.incident_id for row in rows])
        )
    ).all()
    return [
        (each, frozenset(name for owner, name in found if owner == each.incident_id))
        for each in read_rows(session, rows, MAX_LISTED_SPELLS)
    ]


def find_incident(session: Session, incident_id: str) -> WholeIncident | None:
    """One by its id, whole; or None."""
    row = session.get(IncidentRow, incident_id)
    if row is None:
        return None
    findings = session.scalars(
        select(IncidentFindingRow)
        .where(IncidentFindingRow.incident_id == incident_id)
        .order_by(IncidentFindingRow.last_seen_at_unix_ns.desc(), IncidentFindingRow.id)
    )
    events = session.scalars(
        select(IncidentEventRow)
        .where(IncidentEventRow.incident_id == incident_id)
        .order_by(IncidentEventRow.id)
    )
    return WholeIncident(
        incident=read_row(session, row),
        findings=tuple(_read_finding(each) for each in findings),
        events=tuple(
            IncidentEvent(
                at_unix_ns=each.at_unix_ns,
                kind=IncidentEventKind(each.kind),
                actor=each.actor,
                what=each.what,
            )
            for each in events
        ),
    )


def _read_finding(row: IncidentFindingRow) -> StoredFinding:
    return StoredFinding(
        rule_id=row.rule_id,
        mechanism=row.mechanism,
        confidence=row.confidence,
        first_seen_at_unix_ns=row.first_seen_at_unix_ns,
        last_seen_at_unix_ns=row.last_seen_at_unix_ns,
        num_seen=row.num_seen,
        finding=row.finding,
    )
