"""When alerting itself was last heard: who evaluates says so by an alert that always fires."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from controlplane.slo.alert import AlertSource
from controlplane.store.alert_tables import AlertingHeardRow


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingHeard:
    """Of one source."""

    source: AlertSource
    heard_at_unix_ns: int
    ended_at_unix_ns: int | None = None
    """When that alert ended, which it never should: its evaluator fell silent. None: it fires."""
    told_by: str | None = None
    """The address that whoever told it calls its own."""


def keep_heard(session: Session, heard: AlertingHeard) -> None:
    """In place of what was heard before."""
    row = session.get(AlertingHeardRow, heard.source.value)
    if row is None:
        row = AlertingHeardRow(source=heard.source.value)
        session.add(row)
    row.heard_at_unix_ns = heard.heard_at_unix_ns
    row.ended_at_unix_ns, row.told_by = heard.ended_at_unix_ns, heard.told_by
    session.flush()


def read_heard(session: Session) -> list[AlertingHeard]:
    """Of each source that was ever heard."""
    rows = session.scalars(select(AlertingHeardRow).order_by(AlertingHeardRow.source))
    return [
        AlertingHeard(
            source=AlertSource(row.source),
            heard_at_unix_ns=row.heard_at_unix_ns,
            ended_at_unix_ns=row.ended_at_unix_ns,
            told_by=row.told_by,
        )
        for row in rows
    ]
