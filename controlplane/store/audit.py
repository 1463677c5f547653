"""The audit: every change with its actor, reason, before and after, in the change's own
transaction.

Append-only: nothing here changes or deletes, and a trigger in the database refuses it to
everybody else as well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.store.access_tables import AuditRow
from controlplane.store.request_rows import storable
from dataplane.clock import WallClock, wall_clock

MAX_EVENTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One change."""

    id: int
    """Grows with time; gaps mean nothing."""
    at_unix_ns: int
    actor: str
    action: str
    """What was done, as `subject kind.verb`: config.update, key.create, login.fail."""
    subject: str
    """What it was done to, as `kind/name`."""
    reason: str
    before: dict[str, Any] | None
    """None: it did not exist."""
    after: dict[str, Any] | None
    """None: it does not exist any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which events. None: any."""

    actor: str | None = None
    action: str | None = None
    """Whole, or its first part: `config` takes config.create as well."""
    subject: str | None = None
    """Whole, or the kind alone."""
    since_unix_ns: int | None = None
    until_unix_ns: int | None = None


def record_change(
    session: Session,
    *,
    actor: str,
    action: str,
    subject: str,
    reason: str = "",
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    clock: WallClock = wall_clock,
) -> None:
    """Note one change in the caller's unit of work. No secret may be in `before` or `after`."""
    session.add(
        AuditRow(
            at_unix_ns=clock(),
            actor=storable(actor, 128),
            action=action,
            subject=storable(subject, 320),
            reason=storable(reason, 1024),
            before=None if before is None else dict(before),
            after=None if after is None else dict(after),
        )
    )
    session.flush()


def list_events(
    session: Session, wanted: AuditFilter, limit: int, before_id: int | None = None
) -> list[AuditEvent]:
    """The newest first, at most `limit`, older than the event `before_id`."""
    query = select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    if before_id is not None:
        query = query.where(AuditRow.id < before_id)
    if wanted.actor is not None:
        query = query.where(AuditRow.actor == wanted.actor)
    for column, value, separator in (
        (AuditRow.action, wanted.action, "."),
        (AuditRow.subject, wanted.subject, "/"),
    ):
        if value is None:
            continue
        is_whole = separator in value
        query = query.where(
            column == value if is_whole else column.startswith(value + separator, autoescape=True)
        )
    if wanted.since_unix_ns is not None:
        query = query.where(AuditRow.at_unix_ns >= wanted.since_unix_ns)
    if wanted.until_unix_ns is not None:
        query = query.where(AuditRow.at_unix_ns < wanted.until_unix_ns)
    return [_read(row) for row in session.scalars(query)]


def find_event(session: Session, event_id: int) -> AuditEvent | None:
    """One event by its number, or None."""
    row = session.get(AuditRow, event_id)
    return None if row is None else _read(row)


def _read(row: AuditRow) -> AuditEvent:
    return AuditEvent(
        id=row.id,
        at_unix_ns=row.at_unix_ns,
        actor=row.actor,
        action=row.action,
        subject=row.subject,
        reason=row.reason,
        before=row.before,
        after=row.after,
    )
