"""Dashboards as files: those that suit every installation, and that of a contract."""

import json
from collections.abc import Iterable

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from controlplane.slo.prometheus.links import Links
from dashboards.admission import admission
from dashboards.contract import Contracted, contract
from dashboards.control_plane import control_plane
from dashboards.deployment import deployment
from dashboards.fleet import fleet
from dashboards.frame import Plan, build


def render_general(links: Links) -> dict[str, str]:
    """JSON by the name of its file: the four that are the same for all contracts."""
    return _render((fleet(), deployment(), admission(), control_plane()), links)


def render_contracts(contracts: Iterable[Contracted], links: Links) -> dict[str, str]:
    """JSON by the name of its file: one for the promises of each deployment."""
    return _render(map(contract, contracts), links)


def _render(plans: Iterable[Plan], links: Links) -> dict[str, str]:
    return {
        f"{plan.uid}.json": json.dumps(
            build(plan, links), cls=JSONEncoder, indent=2, sort_keys=True, ensure_ascii=False
        )
        + "\n"
        for plan in plans
    }
