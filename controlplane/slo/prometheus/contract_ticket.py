"""A ticket about the rules of a contract themselves, and not about a budget."""

from dataclasses import dataclass

from controlplane.slo.alert_windows import Severity
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.of_promise import team_labels
from controlplane.slo.prometheus.rules import AlertRule
from controlplane.slo.promised import Promise
from dataplane import names


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractTicket:
    """What it looks for, and what it says."""

    name: str
    expr: str
    for_seconds: int
    summary: str
    description: str
    runbook: str

    def rule(self, promise: Promise, links: Links) -> AlertRule:
        """Of the contract that made `promise`, in its deployment."""
        return AlertRule(
            alert=self.name,
            expr=self.expr,
            for_seconds=self.for_seconds,
            labels={
                names.LABEL_SEVERITY: Severity.TICKET.value,
                names.LABEL_DEPLOYMENT: promise.deployment,
                **team_labels(promise),
            },
            annotations={
                "summary": self.summary,
                "description": self.description,
                "runbook_url": links.runbook(self.runbook),
                "dashboard_url": links.budget(promise.deployment),
                names.LABEL_CONTRACT_REVISION: promise.contract_revision,
            },
        )
