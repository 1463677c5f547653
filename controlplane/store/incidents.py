"""Incidents in the database: opened, seen again, resolved, reopened, acknowledged.

What belongs together is decided in `controlplane.diagnosis.incidents`; here it is kept.
"""

import secrets
from collections.abc import Iterable, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.store.incident import (
    BY_ITSELF,
    MAX_LISTED_SPELLS,
    FoundFinding,
    IncidentError,
    IncidentEventKind,
    IncidentState,
    StoredIncident,
)
from controlplane.store.incident_rows import add_event, get_row, read_row
from controlplane.store.incident_tables import IncidentFindingRow, IncidentRow


def open_incident(
    session: Session,
    deployment: str,
    found: Sequence[FoundFinding],
    since_unix_ns: int | None,
    now_unix_ns: int,
) -> StoredIncident:
    """A new one; the first of `found` is the surest."""
    first = found[0]
    row = add_incident(session, deployment, since_unix_ns, now_unix_ns)
    row.mechanism, row.confidence = first.mechanism, first.confidence
    opened = IncidentEventKind.OPENED
    add_event(session, row, opened, now_unix_ns, _words(first), since_unix_ns=since_unix_ns)
    _keep(session, row, found, now_unix_ns, tell=False)
    return read_row(session, row, MAX_LISTED_SPELLS)


def add_incident(
    session: Session, deployment: str | None, since_unix_ns: int | None, now_unix_ns: int
) -> IncidentRow:
    """A row of which nothing is told yet. None: of the installation itself."""
    row = IncidentRow(
        incident_id=secrets.token_hex(4),
        deployment=deployment or "",
        state=IncidentState.OPEN.value,
        mechanism="",
        confidence="",
        opened_at_unix_ns=now_unix_ns,
        since_unix_ns=since_unix_ns,
        last_seen_at_unix_ns=now_unix_ns,
        num_reopened=0,
    )
    session.add(row)
    session.flush()
    return row


def reopen_row(
    session: Session, row: IncidentRow, what: str, since_unix_ns: int | None, now_unix_ns: int
) -> None:
    """It is there again. What it was before may not be what it is now."""
    row.state, row.resolved_at_unix_ns = IncidentState.OPEN.value, None
    row.num_reopened += 1
    row.acknowledged_at_unix_ns = row.acknowledged_by = None
    row.mechanism = row.confidence = ""
    reopened = IncidentEventKind.REOPENED
    add_event(session, row, reopened, now_unix_ns, what, since_unix_ns=since_unix_ns)


def see_again(
    session: Session,
    incident_id: str,
    found: Sequence[FoundFinding],
    now_unix_ns: int,
    since_unix_ns: int | None = None,
) -> StoredIncident:
    """The trouble is still there, or there again: a resolved one is reopened, and `since_unix_ns`
    is when it came back, where that could be seen."""
    row = get_row(session, incident_id)
    first = found[0]
    if row.state == IncidentState.RESOLVED:
        reopen_row(session, row, _words(first), since_unix_ns, now_unix_ns)
        row.mechanism, row.confidence = first.mechanism, first.confidence
    elif not row.mechanism:
        what = f"what alerts told of is {_words(first)}"
        add_event(session, row, IncidentEventKind.FOUND, now_unix_ns, what)
        row.mechanism, row.confidence = first.mechanism, first.confidence
    elif first.mechanism != row.mechanism and _is_surer(first.confidence, row.confidence):
        what = f"{row.mechanism} ({row.confidence}) is {_words(first)} now"
        add_event(session, row, IncidentEventKind.CHANGED, now_unix_ns, what)
        row.mechanism, row.confidence = first.mechanism, first.confidence
    if first.mechanism == row.mechanism:
        row.confidence = max(first.confidence, row.confidence, key=_SURENESS.index)
    row.last_seen_at_unix_ns = now_unix_ns
    _keep(session, row, found, now_unix_ns, tell=True)
    return read_row(session, row, MAX_LISTED_SPELLS)


def resolve_incident(
    session: Session, incident_id: str, what: str, now_unix_ns: int, actor: str = BY_ITSELF
) -> StoredIncident:
    """The trouble is gone. Raises UnknownIncidentError, and IncidentError for one that is."""
    row = get_row(session, incident_id)
    if row.state == IncidentState.RESOLVED:
        raise IncidentError(f"incident {incident_id} is resolved already; nothing was changed")
    row.state, row.resolved_at_unix_ns = IncidentState.RESOLVED.value, now_unix_ns
    add_event(session, row, IncidentEventKind.RESOLVED, now_unix_ns, what, actor)
    return read_row(session, row, MAX_LISTED_SPELLS)


def acknowledge_incident(
    session: Session, incident_id: str, actor: str, what: str, now_unix_ns: int
) -> StoredIncident:
    """Somebody looks after it. Raises UnknownIncidentError, and IncidentError for one that is
    resolved or looked after."""
    row = get_row(session, incident_id)
    if row.state == IncidentState.RESOLVED:
        raise IncidentError(f"incident {incident_id} is resolved; nobody need look after it")
    if row.acknowledged_by is not None:
        raise IncidentError(f"{row.acknowledged_by} looks after incident {incident_id} already")
    row.acknowledged_at_unix_ns, row.acknowledged_by = now_unix_ns, actor
    add_event(session, row, IncidentEventKind.ACKNOWLEDGED, now_unix_ns, what, actor)
    return read_row(session, row, MAX_LISTED_SPELLS)


def note_on_incident(
    session: Session, incident_id: str, actor: str, what: str, now_unix_ns: int
) -> None:
    """A line for its timeline. Raises UnknownIncidentError."""
    add_event(
        session, get_row(session, incident_id), IncidentEventKind.NOTE, now_unix_ns, what, actor
    )


_SURENESS = ("possible", "likely", "certain")


def _is_surer(word: str, other: str) -> bool:
    return _SURENESS.index(word) > _SURENESS.index(other)


def _words(found: FoundFinding) -> str:
    return f"{found.mechanism} ({found.confidence})"


def _keep(
    session: Session,
    incident: IncidentRow,
    found: Iterable[FoundFinding],
    now_unix_ns: int,
    *,
    tell: bool,
) -> None:
    """Note what each rule says now; where it is new, also in the timeline if `tell`."""
    known = {
        row.rule_id: row
        for row in session.scalars(
            select(IncidentFindingRow).where(IncidentFindingRow.incident_id == incident.incident_id)
        )
    }
    for each in found:
        row = known.get(each.rule_id)
        if row is None:
            row = IncidentFindingRow(
                incident_id=incident.incident_id,
                rule_id=each.rule_id,
                mechanism=each.mechanism,
                confidence=each.confidence,
                finding=each.finding,
                first_seen_at_unix_ns=now_unix_ns,
                last_seen_at_unix_ns=now_unix_ns,
                num_seen=0,
            )
            session.add(row)
            if tell and each.mechanism != incident.mechanism:
                kind = IncidentEventKind.FOUND
                add_event(session, incident, kind, now_unix_ns, f"also {_words(each)}")
        row.confidence, row.finding = each.confidence, each.finding
        row.last_seen_at_unix_ns = now_unix_ns
        row.num_seen += 1
    session.flush()
