"""Incidents in the database: opened, seen again, resolved, reopened, acknowledged.

What belongs together is decided in `controlplane.diagnosis.incidents`; here it is kept.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from controlplane.store.incident_spell import IncidentSpell
from controlplane.store.incident_tables import IncidentEventRow, IncidentFindingRow, IncidentRow

BY_ITSELF = "pilothouse"
"""The actor of what nobody asked for."""
_MAX_TEXT = 1024
MAX_LISTED_SPELLS = 20
"""Of one incident: what flaps for days has thousands, and whoever wants them asks for it alone."""


class IncidentState(StrEnum):
    """Whether the trouble is there."""

    OPEN = "open"
    RESOLVED = "resolved"


class IncidentEventKind(StrEnum):
    """What can happen to an incident."""

    OPENED = "opened"
    FOUND = "found"
    """A rule that had not said anything in it before."""
    CHANGED = "changed"
    """Another finding is the surest now."""
    ACKNOWLEDGED = "acknowledged"
    NOTE = "note"
    RESOLVED = "resolved"
    REOPENED = "reopened"


class IncidentError(ValueError):
    """What cannot be done to an incident; the message says why."""


class UnknownIncidentError(IncidentError):
    """No incident has that id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFinding:
    """What a rule found, at one look."""

    rule_id: str
    mechanism: str
    confidence: str
    finding: dict[str, Any]
    """In the form of `controlplane.diagnosis.json_form`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFinding:
    """What a rule said in the course of an incident."""

    rule_id: str
    mechanism: str
    confidence: str
    first_seen_at_unix_ns: int
    last_seen_at_unix_ns: int
    num_seen: int
    finding: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentEvent:
    """One line of an incident's timeline."""

    at_unix_ns: int
    kind: IncidentEventKind
    actor: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIncident:
    """One incident without its findings and its timeline."""

    incident_id: str
    deployment: str
    state: IncidentState
    mechanism: str
    confidence: str
    opened_at_unix_ns: int
    since_unix_ns: int | None
    """Of the first time, as `opened_at_unix_ns`."""
    last_seen_at_unix_ns: int
    resolved_at_unix_ns: int | None
    num_reopened: int
    acknowledged_at_unix_ns: int | None
    acknowledged_by: str | None
    spells: tuple[IncidentSpell, ...]
    """The times in which it was open, oldest first; at least one. In lists, and as changed, the
    last of them; there are `num_reopened` + 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeIncident:
    """One incident with all that is kept of it."""

    incident: StoredIncident
    findings: tuple[StoredFinding, ...]
    """The last seen first."""
    events: tuple[IncidentEvent, ...]
    """In the order in which they were told."""


def open_incident(
    session: Session,
    deployment: str,
    found: Sequence[FoundFinding],
    since_unix_ns: int | None,
    now_unix_ns: int,
) -> StoredIncident:
    """A new one; the first of `found` is the surest."""
    first = found[0]
    row = IncidentRow(
        incident_id=secrets.token_hex(4),
        deployment=deployment,
        state=IncidentState.OPEN.value,
        mechanism=first.mechanism,
        confidence=first.confidence,
        opened_at_unix_ns=now_unix_ns,
        since_unix_ns=since_unix_ns,
        last_seen_at_unix_ns=now_unix_ns,
        num_reopened=0,
    )
    session.add(row)
    session.flush()
    opened = IncidentEventKind.OPENED
    _add_event(session, row, opened, now_unix_ns, _words(first), since_unix_ns=since_unix_ns)
    _keep(session, row, found, now_unix_ns, tell=False)
    return read_row(session, row, MAX_LISTED_SPELLS)


def see_again(
    session: Session,
    incident_id: str,
    found: Sequence[FoundFinding],
    now_unix_ns: int,
    since_unix_ns: int | None = None,
) -> StoredIncident:
    """The trouble is still there, or there again: a resolved one is reopened, and `since_unix_ns`
    is when it came back, where that could be seen."""
    row = _get(session, incident_id)
    first = found[0]
    if row.state == IncidentState.RESOLVED:
        row.state, row.resolved_at_unix_ns = IncidentState.OPEN.value, None
        row.num_reopened += 1
        row.acknowledged_at_unix_ns = row.acknowledged_by = None
        # What it was before may not be what it is now.
        row.mechanism, row.confidence = first.mechanism, first.confidence
        reopened = IncidentEventKind.REOPENED
        _add_event(session, row, reopened, now_unix_ns, _words(first), since_unix_ns=since_unix_ns)
    elif first.mechanism != row.mechanism and _is_surer(first.confidence, row.confidence):
        what = f"{row.mechanism} ({row.confidence}) is {_words(first)} now"
        _add_event(session, row, IncidentEventKind.CHANGED, now_unix_ns, what)
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
    row = _get(session, incident_id)
    if row.state == IncidentState.RESOLVED:
        raise IncidentError(f"incident {incident_id} is resolved already; nothing was changed")
    row.state, row.resolved_at_unix_ns = IncidentState.RESOLVED.value, now_unix_ns
    _add_event(session, row, IncidentEventKind.RESOLVED, now_unix_ns, what, actor)
    return read_row(session, row, MAX_LISTED_SPELLS)


def acknowledge_incident(
    session: Session, incident_id: str, actor: str, what: str, now_unix_ns: int
) -> StoredIncident:
    """Somebody looks after it. Raises UnknownIncidentError, and IncidentError for one that is
    resolved or looked after."""
    row = _get(session, incident_id)
    if row.state == IncidentState.RESOLVED:
        raise IncidentError(f"incident {incident_id} is resolved; nobody need look after it")
    if row.acknowledged_by is not None:
        raise IncidentError(f"{row.acknowledged_by} looks after incident {incident_id} already")
    row.acknowledged_at_unix_ns, row.acknowledged_by = now_unix_ns, actor
    _add_event(session, row, IncidentEventKind.ACKNOWLEDGED, now_unix_ns, what, actor)
    return read_row(session, row, MAX_LISTED_SPELLS)


def note_on_incident(
    session: Session, incident_id: str, actor: str, what: str, now_unix_ns: int
) -> None:
    """A line for its timeline. Raises UnknownIncidentError."""
    _add_event(
        session, _get(session, incident_id), IncidentEventKind.NOTE, now_unix_ns, what, actor
    )


_SURENESS = ("possible", "likely", "certain")


def _is_surer(word: str, other: str) -> bool:
    return _SURENESS.index(word) > _SURENESS.index(other)


def _words(found: FoundFinding) -> str:
    return f"{found.mechanism} ({found.confidence})"


def _get(session: Session, incident_id: str) -> IncidentRow:
    row = session.get(IncidentRow, incident_id)
    if row is None:
        raise UnknownIncidentError(f"there is no incident {incident_id!r}; see the list of them")
    return row


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
                _add_event(session, incident, kind, now_unix_ns, f"also {_words(each)}")
        row.confidence, row.finding = each.confidence, each.finding
        row.last_seen_at_unix_ns = now_unix_ns
        row.num_seen += 1
    session.flush()


def _add_event(
    session: Session,
    incident: IncidentRow,
    kind: IncidentEventKind,
    now_unix_ns: int,
    what: str,
    actor: str = BY_ITSELF,
    *,
    since_unix_ns: int | None = None,
) -> None:
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
    if max_spells is not None:
        spells = [each[-max_spells:] for each in spells]
    return [_read_row(row, of_row) for row, of_row in zip(rows, spells, strict=True)]


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


def _read_row(row: IncidentRow, spells: tuple[IncidentSpell, ...]) -> StoredIncident:
    return StoredIncident(
        incident_id=row.incident_id,
        deployment=row.deployment,
        state=IncidentState(row.state),
        mechanism=row.mechanism,
        confidence=row.confidence,
        opened_at_unix_ns=row.opened_at_unix_ns,
        since_unix_ns=row.since_unix_ns,
        last_seen_at_unix_ns=row.last_seen_at_unix_ns,
        resolved_at_unix_ns=row.resolved_at_unix_ns,
        num_reopened=row.num_reopened,
        acknowledged_at_unix_ns=row.acknowledged_at_unix_ns,
        acknowledged_by=row.acknowledged_by,
        spells=spells,
    )
