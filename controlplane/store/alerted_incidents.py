"""What alerts do to incidents: open them, reopen them, belong to them, end them.

To which one an alert belongs is decided in `controlplane.slo.alert_grouping`; here it is kept.
"""

from sqlalchemy.orm import Session

from controlplane.slo.alert import Alert
from controlplane.store.alert_tellings import is_firing, keep_begun, keep_telling
from controlplane.store.incident import IncidentEventKind, IncidentState
from controlplane.store.incident_rows import add_event, get_row
from controlplane.store.incidents import add_incident, reopen_row, resolve_incident


def open_for_alert(session: Session, alert: Alert, now_unix_ns: int) -> str:
    """A new one, of which nothing is known but that the alert fires. Returns its id."""
    since = alert.started_at_unix_ns
    row = add_incident(session, alert.subject.deployment, since, now_unix_ns)
    opened = IncidentEventKind.OPENED
    add_event(session, row, opened, now_unix_ns, _words(alert), since_unix_ns=since)
    keep_begun(session, row.incident_id, alert, now_unix_ns)
    return row.incident_id


def begin_alert(session: Session, incident_id: str, alert: Alert, now_unix_ns: int) -> None:
    """It began to fire and is part of this trouble; one that is resolved is reopened by it. Reads
    nothing of other alerts, of which there may be thousands."""
    row = get_row(session, incident_id)
    if row.state == IncidentState.RESOLVED:
        reopen_row(session, row, _words(alert), alert.started_at_unix_ns, now_unix_ns)
    elif not is_firing(session, incident_id, alert.subject.fingerprint):
        add_event(session, row, IncidentEventKind.ALERTED, now_unix_ns, _words(alert))
    row.last_seen_at_unix_ns = now_unix_ns
    keep_begun(session, incident_id, alert, now_unix_ns)


def tell_alert(
    session: Session, incident_id: str, alert: Alert, now_unix_ns: int, why: str = ""
) -> None:
    """It still fires, or it ended, `why` where nobody said so. Once no alert of an incident fires,
    one that nothing else tells of is over; where diagnosis found something, that says when."""
    row = get_row(session, incident_id)
    keep_telling(session, incident_id, alert, now_unix_ns)
    if row.state != IncidentState.OPEN:
        return
    row.last_seen_at_unix_ns = now_unix_ns
    if not is_firing(session, incident_id, alert.subject.fingerprint):
        what = f"{_words(alert)}; {why}" if why else _words(alert)
        add_event(session, row, IncidentEventKind.ENDED, now_unix_ns, what)
    if not row.mechanism and not is_firing(session, incident_id):
        resolve_incident(session, incident_id, "no alert of it fires any more", now_unix_ns)


def _words(alert: Alert) -> str:
    subject = alert.subject
    grade = f" ({subject.grade})" if subject.grade else ""
    where = f" at {subject.instance}" if subject.instance else ""
    return f"{subject.name}{grade}{where}: {alert.summary}"
