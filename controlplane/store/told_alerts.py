"""What each notifier told last, deployment by deployment."""

from dataclasses import dataclass

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from controlplane.slo.alert import Alert
from controlplane.slo.alert_json import alert_as_json, alert_from_json
from controlplane.store.told_alert_tables import ToldAlertsRow

Group = str | None
"""A deployment; None: the installation itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What people know of one deployment."""

    at_unix_ns: int | None
    """When they were told last. None: somebody began to tell them, and whether it arrived is not
    known."""
    alerts: tuple[Alert, ...]
    """Those that fire as far as they know, or may know."""


def read_told(session: Session, notifier: str) -> dict[Group, Told]:
    """By deployment, what `notifier` told."""
    rows = session.scalars(select(ToldAlertsRow).where(ToldAlertsRow.notifier == notifier))
    return {
        row.deployment or None: Told(
            at_unix_ns=row.told_at_unix_ns or None, alerts=tuple(map(alert_from_json, row.alerts))
        )
        for row in rows
    }


def keep_told(session: Session, notifier: str, group: Group, told: Told | None) -> None:
    """None: all of it is over, and people know."""
    if told is None:
        session.execute(
            delete(ToldAlertsRow).where(
                ToldAlertsRow.notifier == notifier, ToldAlertsRow.deployment == (group or "")
            )
        )
        return
    session.merge(
        ToldAlertsRow(
            notifier=notifier,
            deployment=group or "",
            told_at_unix_ns=told.at_unix_ns or 0,
            alerts=[alert_as_json(each) for each in told.alerts],
        )
    )
