"""Alerts to tell of, made up."""

from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import Severity
from controlplane.slo.prometheus.burning import ALERT


def burning(
    severity: Severity = Severity.PAGE,
    deployment: str = "chat",
    objective: str = "ttft",
    started_at_unix_ns: int = 0,
) -> Alert:
    """A budget that burns: page_quick or ticket_slow."""
    grade = "page_quick" if severity is Severity.PAGE else "ticket_slow"
    return Alert(
        subject=AlertSubject(
            name=ALERT,
            severity=severity,
            grade=grade,
            deployment=deployment,
            request_class="interactive",
            objective=objective,
        ),
        source=AlertSource.CONTROL_PLANE,
        summary=f"The error budget of {deployment} interactive {objective} is burning",
        description="20 % of the 1000 requests of the last 1h missed it.",
        started_at_unix_ns=started_at_unix_ns,
        contract_revision="chat@7",
        runbook_url="http://console/runbooks/budget-burn",
    )
