"""Alerts as an earlier control plane told them, from what incidents keep of them."""

from collections.abc import Iterable

from controlplane.slo.alert import Alert
from controlplane.store.incident_alert import AlertTelling


def fired_before(tellings: Iterable[AlertTelling]) -> list[Alert]:
    """As they were told last."""
    return [
        Alert(
            subject=each.subject,
            source=each.source,
            summary=each.summary,
            description=each.description,
            started_at_unix_ns=each.started_at_unix_ns,
            contract_revision=each.contract_revision,
            runbook_url=each.runbook_url,
            dashboard_url=each.dashboard_url,
        )
        for each in tellings
    ]
