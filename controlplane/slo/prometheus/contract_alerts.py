"""Alerts about the rules of one contract themselves: whether anybody counts what they look at, and
whether they are of the revision that is enforced.

Rules lie in Prometheus, and gateways follow the control plane. Where the two part, every other
alert of the contract is silent, or speaks of a promise that nobody makes any more.
"""

from collections.abc import Sequence
from dataclasses import replace

from controlplane.slo.alert_windows import MINUTE, Severity
from controlplane.slo.prometheus.burning import Burning, burning_groups
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import AlertRule, RuleGroup
from controlplane.slo.promised import Promise
from dataplane import names

_INTERVAL_SECONDS = 30
UNSEEN, OUTDATED = "PilothouseContractUnseen", "PilothouseRulesOutdated"


def watched_groups(promises: Sequence[Promise], links: Links) -> Burning:
    """All rules of one deployment whose requests gateways judge, with those that watch them."""
    burning = burning_groups(promises, links)
    if not promises:
        return burning
    watching = RuleGroup(
        name=f"pilothouse-slo-{promises[0].deployment}-contract",
        interval_seconds=_INTERVAL_SECONDS,
        rules=_alerts(promises[0], links),
    )
    return replace(burning, groups=(*burning.groups, watching))


def _alerts(promise: Promise, links: Links) -> tuple[AlertRule, ...]:
    deployment, revision = promise.deployment, promise.contract_revision
    of_it = f'{names.LABEL_DEPLOYMENT}="{deployment}"'
    team = {} if promise.alerting.team is None else {names.LABEL_TEAM: promise.alerting.team}
    labels = {
        names.LABEL_SEVERITY: Severity.TICKET.value,
        names.LABEL_DEPLOYMENT: deployment,
        **team,
    }
    return (
        AlertRule(
            alert=UNSEEN,
            expr=f"absent({names.GATEWAY_CONTRACT}{{{of_it}}})",
            for_seconds=5 * MINUTE,
            labels=labels,
            annotations={
                "summary": f"No gateway judges the contract of {deployment}",
                "description": f"For five minutes no gateway told that it enforces {revision}: "
                "nothing is counted, and no alert of it can fire. That is no proof that all is "
                "well.",
                "runbook_url": links.runbook("telemetry-missing"),
                "dashboard_url": links.deployment(deployment),
                names.LABEL_CONTRACT_REVISION: revision,
            },
        ),
        AlertRule(
            alert=OUTDATED,
            expr=f"max by ({names.LABEL_DEPLOYMENT}, {names.LABEL_CONTRACT_REVISION}) "
            f"({names.GATEWAY_CONTRACT}{{{of_it},"
            f'{names.LABEL_CONTRACT_REVISION}!="{revision}"}}) == 1',
            for_seconds=15 * MINUTE,
            labels=labels,
            annotations={
                "summary": f"Rules of {deployment} are not of the contract that is enforced",
                "description": "Gateways enforce {{ $labels.contract_revision }}, and these rules "
                f"were made of {revision}: budgets and alerts are of other promises. Render them "
                f"anew: `pilothouse slo render {revision.rpartition('@')[0]}`.",
                "runbook_url": links.runbook("rules-outdated"),
                "dashboard_url": links.deployment(deployment),
                names.LABEL_CONTRACT_REVISION: revision,
            },
        ),
    )
