"""Alerts for what no objective covers: whoever cannot be seen, what is never given back, and
Pilothouse itself. The same for every installation; each names its runbook.
"""

from controlplane.slo.prometheus.alerts_of_alerting import OF_ALERTING
from controlplane.slo.prometheus.alerts_of_evaluation import OF_EVALUATION
from controlplane.slo.prometheus.alerts_of_processes import OF_PROCESSES
from controlplane.slo.prometheus.alerts_of_records import OF_RECORDS
from controlplane.slo.prometheus.alerts_of_serving import OF_SERVING
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import RuleGroup

_INTERVAL_SECONDS = 30
STATIC_ALERTS = (*OF_ALERTING, *OF_EVALUATION, *OF_PROCESSES, *OF_SERVING, *OF_RECORDS)


def static_groups(links: Links) -> tuple[RuleGroup, ...]:
    """All of them."""
    return (
        RuleGroup(
            name="pilothouse-static",
            interval_seconds=_INTERVAL_SECONDS,
            rules=[alert.rule(links) for alert in STATIC_ALERTS],
        ),
    )
