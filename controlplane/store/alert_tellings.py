"""What sources told of alerts, row by row: read for incidents, and kept."""

from collections.abc import Mapping, Sequence

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity
from controlplane.store.alert_tables import IncidentAlertRow
from controlplane.store.incident import IncidentState
from controlplane.store.incident_alert import AlertTelling, StoredAlert, put_together
from controlplane.store.incident_tables import IncidentRow

AlertKey = tuple[str, AlertSource]
"""The fingerprint of an alert, and who tells of it."""
KnownTellings = dict[AlertKey, tuple[AlertTelling, IncidentState]]
"""With the state of the incident that each is of."""


def read_alerts(
    session: Session, deployments: Mapping[str, str | None]
) -> dict[str, tuple[StoredAlert, ...]]:
    """Of incidents, given with their deployments by id; those without alerts are left out."""
    if not deployments:
        return {}
    rows = session.scalars(
        select(IncidentAlertRow)
        .where(IncidentAlertRow.incident_id.in_(list(deployments)))
        .order_by(IncidentAlertRow.id)
    )
    found: dict[str, list[AlertTelling]] = {}
    for row in rows:
        telling = _read(row, deployments[row.incident_id])
        found.setdefault(row.incident_id, []).append(telling)
    return {incident_id: put_together(told) for incident_id, told in found.items()}


def newest_tellings(session: Session, fingerprints: Sequence[str]) -> KnownTellings:
    """What each source told last of each alert, in whichever incident: an older one may have been
    reopened by it after a newer one."""
    row = IncidentAlertRow
    last_first = func.row_number().over(
        partition_by=(row.fingerprint, row.source),
        order_by=(row.told_at_unix_ns.desc(), row.id.desc()),
    )
    placed = select(row.id, last_first.label("place")).where(row.fingerprint.in_(fingerprints))
    told = placed.subquery()
    rows = session.execute(
        select(row, IncidentRow)
        .join(IncidentRow, IncidentRow.incident_id == row.incident_id)
        .join(told, told.c.id == row.id)
        .where(told.c.place == 1)
    )
    return {
        (telling.fingerprint, AlertSource(telling.source)): (
            _read(telling, incident.deployment or None),
            IncidentState(incident.state),
        )
        for telling, incident in rows
    }


def find_firing(session: Session, source: AlertSource) -> list[AlertTelling]:
    """What fires in an open incident, as far as `source` told."""
    rows = session.execute(
        select(IncidentAlertRow, IncidentRow.deployment)
        .join(IncidentRow, IncidentRow.incident_id == IncidentAlertRow.incident_id)
        .where(
            IncidentRow.state == IncidentState.OPEN.value,
            IncidentAlertRow.source == source.value,
            IncidentAlertRow.ended_at_unix_ns.is_(None),
        )
        .order_by(IncidentAlertRow.id)
    )
    return [_read(row, deployment or None) for row, deployment in rows]


def is_firing(session: Session, incident_id: str, fingerprint: str | None = None) -> bool:
    """Whether an alert fires in an incident, as far as any source told; None: any alert."""
    row = IncidentAlertRow
    query = select(row.id).where(row.incident_id == incident_id, row.ended_at_unix_ns.is_(None))
    if fingerprint is not None:
        query = query.where(row.fingerprint == fingerprint)
    return session.scalars(query.limit(1)).first() is not None


def keep_begun(session: Session, incident_id: str, alert: Alert, now_unix_ns: int) -> None:
    """That it began to fire, or began again. It fires in one incident: one that somebody resolved
    while it fired is not told its end."""
    _end_elsewhere(session, incident_id, alert, now_unix_ns)
    row = _find(session, incident_id, alert)
    if row is None:
        row = _new(incident_id, alert, now_unix_ns)
        session.add(row)
    row.started_at_unix_ns, row.ended_at_unix_ns = alert.started_at_unix_ns, None
    row.num_times += 1
    _keep_words(row, alert, now_unix_ns)
    session.flush()


def keep_telling(session: Session, incident_id: str, alert: Alert, now_unix_ns: int) -> None:
    """That it goes on, or has ended."""
    row = _find(session, incident_id, alert)
    if row is None:
        raise ValueError(f"nobody told that {alert.subject} began, in incident {incident_id}")
    row.ended_at_unix_ns = alert.ended_at_unix_ns
    _keep_words(row, alert, now_unix_ns)
    session.flush()


def _end_elsewhere(session: Session, incident_id: str, alert: Alert, now_unix_ns: int) -> None:
    session.execute(
        update(IncidentAlertRow)
        .where(
            IncidentAlertRow.fingerprint == alert.subject.fingerprint,
            IncidentAlertRow.source == alert.source.value,
            IncidentAlertRow.incident_id != incident_id,
            IncidentAlertRow.ended_at_unix_ns.is_(None),
        )
        .values(ended_at_unix_ns=now_unix_ns)
    )


def _find(session: Session, incident_id: str, alert: Alert) -> IncidentAlertRow | None:
    return session.scalars(
        select(IncidentAlertRow).where(
            IncidentAlertRow.incident_id == incident_id,
            IncidentAlertRow.fingerprint == alert.subject.fingerprint,
            IncidentAlertRow.source == alert.source.value,
        )
    ).one_or_none()


def _new(incident_id: str, alert: Alert, now_unix_ns: int) -> IncidentAlertRow:
    subject = alert.subject
    return IncidentAlertRow(
        incident_id=incident_id,
        fingerprint=subject.fingerprint,
        source=alert.source.value,
        name=subject.name,
        severity=subject.severity.value,
        grade=subject.grade,
        request_class=subject.request_class,
        objective=subject.objective,
        instance=subject.instance,
        told_at_unix_ns=now_unix_ns,
        num_times=0,
    )


def _keep_words(row: IncidentAlertRow, alert: Alert, now_unix_ns: int) -> None:
    row.summary, row.description = alert.summary, alert.description
    row.contract_revision = alert.contract_revision
    row.runbook_url, row.dashboard_url = alert.runbook_url, alert.dashboard_url
    row.told_at_unix_ns = now_unix_ns


def _read(row: IncidentAlertRow, deployment: str | None) -> AlertTelling:
    return AlertTelling(
        incident_id=row.incident_id,
        subject=AlertSubject(
            name=row.name,
            severity=Severity(row.severity),
            grade=row.grade,
            deployment=deployment,
            request_class=row.request_class,
            objective=row.objective,
            instance=row.instance,
        ),
        source=AlertSource(row.source),
        summary=row.summary,
        description=row.description,
        contract_revision=row.contract_revision,
        runbook_url=row.runbook_url,
        dashboard_url=row.dashboard_url,
        started_at_unix_ns=row.started_at_unix_ns,
        told_at_unix_ns=row.told_at_unix_ns,
        ended_at_unix_ns=row.ended_at_unix_ns,
        num_times=row.num_times,
    )
