"""Alerts as they are told in tests: of a deployment's budget, and of the installation."""

from collections.abc import Sequence

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_book import AlertBook
from controlplane.slo.alert_windows import Severity
from controlplane.store.database import Database
from controlplane.store.incident import StoredIncident, WholeIncident
from controlplane.store.incident_lists import find_incident, list_incidents

S = 10**9
HERE, PROMETHEUS = AlertSource.CONTROL_PLANE, AlertSource.ALERTMANAGER


def burn(
    grade: str = "page_quick",
    *,
    since: int,
    until: int | None = None,
    source: AlertSource = PROMETHEUS,
    deployment: str = "chat",
    objective: str = "ttft",
    description: str = "20 % missed",
) -> Alert:
    """Seconds."""
    severity = Severity.PAGE if grade.startswith("page") else Severity.TICKET
    return Alert(
        subject=AlertSubject(
            name="PilothouseBudgetBurn",
            severity=severity,
            grade=grade,
            deployment=deployment,
            request_class="interactive",
            objective=objective,
        ),
        source=source,
        summary=f"The error budget of {deployment} interactive {objective} is burning",
        description=description,
        started_at_unix_ns=since * S,
        ended_at_unix_ns=None if until is None else until * S,
        contract_revision="chat@7",
        runbook_url="http://console.test/runbooks/budget-burn",
        dashboard_url=f"http://console.test/deployments/{deployment}",
    )


def static(
    name: str = "PilothouseGatewayDown",
    *,
    since: int,
    until: int | None = None,
    instance: str = "127.0.0.1:8701",
) -> Alert:
    """Of the installation itself. Seconds."""
    return Alert(
        subject=AlertSubject(name=name, severity=Severity.PAGE, instance=instance),
        source=PROMETHEUS,
        summary="A gateway does not answer",
        description=f"{instance} was not scraped",
        started_at_unix_ns=since * S,
        ended_at_unix_ns=None if until is None else until * S,
        runbook_url="http://console.test/runbooks/gateway-restart",
    )


class Told:
    """A book and what the database holds after each telling."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.book = AlertBook(database)

    def at(self, second: int, *alerts: Alert) -> list[StoredIncident]:
        """What is in the list after these were told at `second`, the newest first."""
        self.book.take(alerts, second * S)
        return self.incidents()

    def incidents(self) -> list[StoredIncident]:
        with self.database.reading() as session:
            return list_incidents(session)

    def whole(self, incident_id: str) -> WholeIncident:
        with self.database.reading() as session:
            found = find_incident(session, incident_id)
        assert found is not None
        return found

    def kinds(self, incident_id: str) -> Sequence[str]:
        return [event.kind.value for event in self.whole(incident_id).events]
