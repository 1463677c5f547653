"""Alerts about the rules of one contract themselves: whether anybody counts what they look at, and
whether they are of the revision that is enforced.

Rules lie in Prometheus, and gateways follow the control plane. Where the two part, every other
alert of the contract is silent, or speaks of a promise that nobody makes any more.
"""

from collections.abc import Sequence
from dataclasses import replace

from controlplane.slo.alert_windows import MINUTE
from controlplane.slo.prometheus.burning import Burning, burning_groups
from controlplane.slo.prometheus.contract_ticket import ContractTicket
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.of_promise import group_name
from controlplane.slo.prometheus.rules import RuleGroup
from controlplane.slo.promised import Promise
from dataplane import names

_INTERVAL_SECONDS = 30
CONTRACT_UNSEEN, RULES_OUTDATED = "PilothouseContractUnseen", "PilothouseRulesOutdated"


def watched_groups(promises: Sequence[Promise], links: Links) -> Burning:
    """All rules of one deployment whose requests gateways judge, with those that watch them."""
    burning = burning_groups(promises, links)
    if not promises:
        return burning
    promise = promises[0]
    watching = RuleGroup(
        name=group_name(promise.deployment, "contract"),
        interval_seconds=_INTERVAL_SECONDS,
        rules=[each.rule(promise, links) for each in (_unseen(promise), _outdated(promise))],
    )
    return replace(burning, groups=(*burning.groups, watching))


def _unseen(promise: Promise) -> ContractTicket:
    of_it = f'{names.LABEL_DEPLOYMENT}="{promise.deployment}"'
    return ContractTicket(
        name=CONTRACT_UNSEEN,
        expr=f"absent({names.GATEWAY_CONTRACT}{{{of_it}}})",
        for_seconds=5 * MINUTE,
        summary=f"No gateway judges the contract of {promise.deployment}",
        description=f"For five minutes no gateway told that it enforces "
        f"{promise.contract_revision}: nothing is counted, and no alert of it can fire. That is no "
        "proof that all is well.",
        runbook="telemetry-missing",
    )


def _outdated(promise: Promise) -> ContractTicket:
    revision = promise.contract_revision
    enforced = (
        f'{names.GATEWAY_CONTRACT}{{{names.LABEL_DEPLOYMENT}="{promise.deployment}",'
        f'{names.LABEL_CONTRACT_REVISION}!="{revision}"}}'
    )
    return ContractTicket(
        name=RULES_OUTDATED,
        expr=f"max by ({names.LABEL_DEPLOYMENT}, {names.LABEL_CONTRACT_REVISION}) "
        f"({enforced}) == 1",
        for_seconds=15 * MINUTE,
        summary=f"Rules of {promise.deployment} are not of the contract that is enforced",
        description="Gateways enforce {{ $labels.contract_revision }}, and these rules were made "
        f"of {revision}: budgets and alerts are of other promises. Render them anew: `pilothouse "
        f"slo render {revision.rpartition('@')[0]}`.",
        runbook="rules-outdated",
    )
