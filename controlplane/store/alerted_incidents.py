"""What alerts do to incidents: open them, reopen them, belong to them, end them.

To which one an alert belongs is decided in `controlplane.slo.alert_grouping`; here it is kept.
"""

from sqlalchemy.orm import Session

from controlplane.slo.alert import Alert
from controlplane.store.alert_tellings import keep_begun, keep_telling
from controlplane.store.incident import (
    MAX_LISTED_SPELLS,
    IncidentEventKind,
    IncidentState,
    StoredIncident,
)
from controlplane.store.incident_alert import StoredAlert
from controlplane.store.incident_rows import add_event, get_row, read_row
from controlplane.store.incidents import add_incident, reopen_row, resolve_incident


def open_for_alert(session: Session, alert: Alert, now_unix_ns: int) -> StoredIncident:
    """A new one, of which nothing is known but that the alert fires."""
    since = alert.started_at_unix_ns
    row = add_incident(session, alert.subject.deployment, since, now_unix_ns)
    opened = IncidentEventKind.OPENED
    add_event(session, row, opened, now_unix_ns, _words(alert), since_unix_ns=since)
    keep_begun(session, row.incident_id, alert, now_unix_ns)
    return read_row(session, row, MAX_LISTED_SPELLS)


def begin_alert(
    session: Session, incident_id: str, alert: Alert, now_unix_ns: int
) -> StoredIncident:
    """It began to fire and is part of this trouble; one that is resolved is reopened by it."""
    row = get_row(session, incident_id)
    before = _find(read_row(session, row, MAX_LISTED_SPELLS), alert)
    if row.state == IncidentState.RESOLVED:
        reopen_row(session, row, _words(alert), alert.started_at_unix_ns, now_unix_ns)
    elif before is None or not before.is_firing:
        add_event(session, row, IncidentEventKind.ALERTED, now_unix_ns, _words(alert))
    row.last_seen_at_unix_ns = now_unix_ns
    keep_begun(session, incident_id, alert, now_unix_ns)
    return read_row(session, row, MAX_LISTED_SPELLS)


def tell_alert(
    session: Session, incident_id: str, alert: Alert, now_unix_ns: int, why: str = ""
) -> StoredIncident:
    """It still fires, or it ended, `why` where nobody said so. Once no alert of an incident fires,
    one that nothing else tells of is over; where diagnosis found something, that says when."""
    row = get_row(session, incident_id)
    keep_telling(session, incident_id, alert, now_unix_ns)
    told = read_row(session, row, MAX_LISTED_SPELLS)
    now = _find(told, alert)
    if row.state != IncidentState.OPEN:
        return told
    row.last_seen_at_unix_ns = now_unix_ns
    if now is not None and not now.is_firing:
        what = f"{_words(alert)}; {why}" if why else _words(alert)
        add_event(session, row, IncidentEventKind.ENDED, now_unix_ns, what)
    if not told.is_alerting and told.mechanism is None:
        resolve_incident(session, incident_id, "no alert of it fires any more", now_unix_ns)
    return read_row(session, row, MAX_LISTED_SPELLS)


def _find(incident: StoredIncident, alert: Alert) -> StoredAlert | None:
    return next((each for each in incident.alerts if each.subject == alert.subject), None)


def _words(alert: Alert) -> str:
    subject = alert.subject
    grade = f" ({subject.grade})" if subject.grade else ""
    where = f" at {subject.instance}" if subject.instance else ""
    return f"{subject.name}{grade}{where}: {alert.summary}"
