"""One alert that no contract makes: the same for every installation."""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.slo.alert_windows import Severity
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import AlertRule
from dataplane import names

OF_DEPLOYMENT = "deployments/{{ $labels.deployment }}"
"""The page of the deployment that an alert is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticAlert:
    """What it looks for, whom it calls, and what it says."""

    name: str
    severity: Severity
    expr: str
    for_seconds: int
    summary: str
    """Short, without figures."""
    description: str
    """With them, in Prometheus' templates."""
    runbook: str
    page: str = ""
    """Of the console, in Prometheus' templates."""
    labels: Mapping[str, str] | None = None

    def rule(self, links: Links) -> AlertRule:
        """As Prometheus takes it."""
        return AlertRule(
            alert=self.name,
            expr=self.expr,
            for_seconds=self.for_seconds,
            labels={names.LABEL_SEVERITY: self.severity.value, **(self.labels or {})},
            annotations={
                "summary": self.summary,
                "description": self.description,
                "runbook_url": links.runbook(self.runbook),
                "dashboard_url": links.page(self.page),
            },
        )
