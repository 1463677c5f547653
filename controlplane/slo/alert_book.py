"""Alerts become incidents: what fires opens one or joins one, and what ended ends it.

Both who evaluates here and who receives from Alertmanager tell the book. It may be told anything
twice, late and out of order, and by several threads and control planes at once.
"""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from controlplane.diagnosis.incident_settings import IncidentSettings
from controlplane.slo.alert import REPEATED_EVERY_SECONDS, Alert, AlertSource
from controlplane.slo.alert_grouping import News, find_incident_of, news_of
from controlplane.slo.alert_windows import HOUR, Severity
from controlplane.store.alert_tellings import (
    AlertKey,
    KnownTellings,
    find_firing,
    newest_tellings,
)
from controlplane.store.alerted_incidents import begin_alert, open_for_alert, tell_alert
from controlplane.store.database import Database
from controlplane.store.incident import IncidentState, StoredIncident
from controlplane.store.incident_alert import AlertTelling
from controlplane.store.incident_lists import list_current

_NS = 10**9
_AT_ONCE = 100
"""Alerts in one transaction: others want to write as well."""
UNREPEATED_SECONDS = float(REPEATED_EVERY_SECONDS + HOUR)
"""Without a telling for so long, Alertmanager has been silent for more than it lets pass."""


class AlertBook:
    """Of one control plane. Threads share it."""

    def __init__(self, config_db: Database, settings: IncidentSettings | None = None) -> None:
        self._database = config_db
        self._settings = settings or IncidentSettings()

    def take(self, alerts: Sequence[Alert], now_unix_ns: int) -> None:
        """What fires, and what ended. An alert that is not among `alerts` goes on as it was: its
        end has to be told. Writes only where something is new. Raises what the database does; then
        some of it may not have been taken, and all of it can be told again."""
        if not alerts or not self._has_news(alerts, now_unix_ns):
            return
        ordered = sorted(alerts, key=_urgency)
        for start in range(0, len(ordered), _AT_ONCE):
            with self._database.session() as session:
                taking = _Taking(session, self._settings, now_unix_ns)
                for alert in ordered[start : start + _AT_ONCE]:
                    taking.take(alert)

    def firing(self, source: AlertSource) -> list[AlertTelling]:
        """What fires as far as `source` told: for an evaluator that begins, which has to tell the
        end of what fired before."""
        with self._database.reading() as session:
            return find_firing(session, source)

    def end_unrepeated(self, source: AlertSource, now_unix_ns: int) -> None:
        """What fires as far as `source` told, and was not told again for longer than it lets pass,
        is called ended: Alertmanager never tells the end of what it was silent about meanwhile."""
        bound = now_unix_ns - round(UNREPEATED_SECONDS * _NS)
        if all(each.told_at_unix_ns >= bound for each in self.firing(source)):
            return
        with self._database.session() as session:
            for telling in find_firing(session, source):
                if telling.told_at_unix_ns < bound:
                    why = f"not repeated for {UNREPEATED_SECONDS / 3600:g} h by {source.value}"
                    ended = telling.as_ended(now_unix_ns)
                    tell_alert(session, telling.incident_id, ended, now_unix_ns, why)

    def _has_news(self, alerts: Sequence[Alert], now_unix_ns: int) -> bool:
        with self._database.reading() as session:
            known = newest_tellings(session, [each.subject.fingerprint for each in alerts])
        return any(_news(each, known, now_unix_ns) is not News.NOTHING for each in alerts)


class _Taking:
    """Some alerts in one transaction, in which nobody else changes anything."""

    def __init__(self, session: Session, settings: IncidentSettings, now_unix_ns: int) -> None:
        self._session = session
        self._settings = settings
        self._now = now_unix_ns
        self._current: dict[str | None, list[StoredIncident]] = {}
        """By deployment, those that an alert may be of. That one more fires in one of them makes no
        difference to the others, which may be thousands; another one, or one that is over, does."""

    def take(self, alert: Alert) -> None:
        """Looked up once more: another source may have told it meanwhile."""
        known = newest_tellings(self._session, [alert.subject.fingerprint])
        match _news(alert, known, self._now):
            case News.BEGAN:
                self._begin(alert)
            case News.CAME_AND_WENT:
                self._tell(self._begin(alert), alert)
            case News.GOES_ON | News.ENDED:
                telling, _ = known[_key(alert)]
                self._tell(telling.incident_id, alert)
            case News.NOTHING:
                pass

    def _begin(self, alert: Alert) -> str:
        """Returns the id of the incident that it is part of."""
        deployment = alert.subject.deployment
        found = find_incident_of(alert, self._known(deployment), self._now, self._settings)
        if found is None or found.state is not IncidentState.OPEN or not found.is_alerting:
            del self._current[deployment]
        if found is None:
            return open_for_alert(self._session, alert, self._now)
        begin_alert(self._session, found.incident_id, alert, self._now)
        return found.incident_id

    def _tell(self, incident_id: str, alert: Alert) -> None:
        tell_alert(self._session, incident_id, alert, self._now)
        if not alert.is_firing:
            self._current.pop(alert.subject.deployment, None)

    def _known(self, deployment: str | None) -> list[StoredIncident]:
        if deployment not in self._current:
            since = self._now - round(self._settings.reopens_within_seconds * _NS)
            found = list_current(self._session, deployment, since)
            self._current[deployment] = [incident for incident, _ in found]
        return self._current[deployment]


def _news(alert: Alert, known: KnownTellings, now_unix_ns: int) -> News:
    telling, state = known.get(_key(alert), (None, IncidentState.OPEN))
    is_open = state is IncidentState.OPEN
    return news_of(alert, telling, now_unix_ns, is_open=is_open)


def _key(alert: Alert) -> AlertKey:
    return alert.subject.fingerprint, alert.source


def _urgency(alert: Alert) -> tuple[bool, bool, int]:
    """Pages open incidents and tickets join them; what begins goes before what ends, so that none
    is over in between."""
    is_ticket = alert.subject.severity is not Severity.PAGE
    return not alert.is_firing, is_ticket, alert.started_at_unix_ns
