"""Rows of incidents: found, read with their times and alerts, and their timeline written."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.store.alert_tellings import read_alerts
from controlplane.store.incident import (
    BY_ITSELF,
    IncidentEventKind,
    IncidentState,
    StoredIncident,
    UnknownIncidentError,
)
from controlplane.store.incident_alert import StoredAlert
from controlplane.store.incident_spell import IncidentSpell
from controlplane.store.incident_tables import IncidentEventRow, IncidentRow

_MAX_TEXT = 1024


def get_row(session: Session, incident_id: str) -> IncidentRow:
    """Raises UnknownIncidentError."""
    row = session.get(IncidentRow, incident_id)
    if row is None:
        raise UnknownIncidentError(f"there is no incident {incident_id!r}; see the list of them")
    return row


def add_event(
    session: Session,
    incident: IncidentRow,
    kind: IncidentEventKind,
    now_unix_ns: int,
    what: str,
    actor: str = BY_ITSELF,
    *,
    since_unix_ns: int | None = None,
) -> None:
    """A line of its timeline."""
    session.add(
        IncidentEventRow(
            incident_id=incident.incident_id,
            at_unix_ns=now_unix_ns,
            kind=kind.value,
            actor=actor,
            what=what[:_MAX_TEXT],
            since_unix_ns=since_unix_ns,
        )
    )
    session.flush()


def read_row(session: Session, row: IncidentRow, max_spells: int | None = None) -> StoredIncident:
    """As it is stored, with its last `max_spells` times; None: all."""
    return read_rows(session, [row], max_spells)[0]


def read_rows(
    session: Session, rows: Sequence[IncidentRow], max_spells: int | None = None
) -> list[StoredIncident]:
    """The same of many, in their order; of each its last `max_spells` times, None: all."""
    reopened = [row.incident_id for row in rows if row.num_reopened]
    turns = _turns(session, reopened, max_spells) if reopened else {}
    spells = [_spells(row, turns.get(row.incident_id, ())) for row in rows]
    alerts = read_alerts(session, {row.incident_id: row.deployment or None for row in rows})
    if max_spells is not None:
        spells = [each[-max_spells:] for each in spells]
    return [
        _read_row(row, of_row, alerts.get(row.incident_id, ()))
        for row, of_row in zip(rows, spells, strict=True)
    ]


class _Turn(NamedTuple):
    """An event by which one of an incident's times began or ended."""

    kind: str
    at_unix_ns: int
    since_unix_ns: int | None


def _turns(
    session: Session, incident_ids: Sequence[str], max_spells: int | None
) -> dict[str, list[_Turn]]:
    """By incident, oldest first: two of each time, and the end of the one before them."""
    row = IncidentEventRow
    newest_first = func.row_number().over(partition_by=row.incident_id, order_by=row.id.desc())
    query = select(
        row.id, row.incident_id, row.kind, row.at_unix_ns, row.since_unix_ns,
        newest_first.label("place"),
    ).where(row.incident_id.in_(incident_ids), row.kind.in_(_TURNS))  # fmt: skip
    placed = query.subquery()
    ordered = select(placed).order_by(placed.c.id)
    if max_spells is not None:
        ordered = ordered.where(placed.c.place <= 2 * max_spells + 1)
    turns: dict[str, list[_Turn]] = {}
    for _, incident_id, kind, at, since, _ in session.execute(ordered):
        turns.setdefault(incident_id, []).append(_Turn(kind, at, since))
    return turns


_TURNS = [
    IncidentEventKind.OPENED.value,
    IncidentEventKind.RESOLVED.value,
    IncidentEventKind.REOPENED.value,
]


def _spells(row: IncidentRow, turns: Iterable[_Turn]) -> tuple[IncidentSpell, ...]:
    """Oldest first; `turns` are the last of one that was reopened. None began before the one before
    it was over, whatever was seen of it then: it would be counted twice."""
    spells: list[IncidentSpell] = []
    over_at = 0
    for turn in turns:
        if turn.kind == IncidentEventKind.RESOLVED:
            over_at = turn.at_unix_ns
            spells[-1:] = [replace(each, resolved_at_unix_ns=over_at) for each in spells[-1:]]
        elif turn.kind == IncidentEventKind.OPENED:
            spells.append(replace(_first_spell(row), resolved_at_unix_ns=None))
        else:
            spells.append(_again(turn, over_at))
    return tuple(spells) or (_first_spell(row),)


def _first_spell(row: IncidentRow) -> IncidentSpell:
    return IncidentSpell(
        opened_at_unix_ns=row.opened_at_unix_ns,
        since_unix_ns=row.since_unix_ns,
        resolved_at_unix_ns=row.resolved_at_unix_ns,
    )


def _again(turn: _Turn, over_at_unix_ns: int) -> IncidentSpell:
    since = turn.since_unix_ns
    return IncidentSpell(
        opened_at_unix_ns=turn.at_unix_ns,
        since_unix_ns=None if since is None else max(since, over_at_unix_ns),
        resolved_at_unix_ns=None,
    )


def _read_row(
    row: IncidentRow, spells: tuple[IncidentSpell, ...], alerts: tuple[StoredAlert, ...]
) -> StoredIncident:
    return StoredIncident(
        incident_id=row.incident_id,
        deployment=row.deployment or None,
        state=IncidentState(row.state),
        mechanism=row.mechanism or None,
        confidence=row.confidence or None,
        opened_at_unix_ns=row.opened_at_unix_ns,
        since_unix_ns=row.since_unix_ns,
        last_seen_at_unix_ns=row.last_seen_at_unix_ns,
        resolved_at_unix_ns=row.resolved_at_unix_ns,
        num_reopened=row.num_reopened,
        acknowledged_at_unix_ns=row.acknowledged_at_unix_ns,
        acknowledged_by=row.acknowledged_by,
        spells=spells,
        alerts=alerts,
    )
