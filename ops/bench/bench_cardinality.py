"""How many series one large installation has: those of its exporters, and those of our rules.

    .venv/bin/python ops/bench/bench_cardinality.py
    .venv/bin/python ops/bench/bench_cardinality.py --deployments 10 --gateways 2

The real registries of gateway, control plane and replica are filled with all that can become of a
request in every class of every deployment, sent by `--tenants` tenants; each deployment has one
replica of the native engine, and a contract of three objectives and a joint one for each class.
What the rules record is counted by promtool's evaluator, without trouble; beside it, how many
series alerts are when all that there are fire at once.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

from controlplane.slo.prometheus.contract_alerts import watched_groups
from controlplane.slo.prometheus.rules import AlertRule
from ops.bench.slo import exposed
from ops.bench.slo.installation import Installation
from ops.bench.slo.recorded import recorded_by_name
from tests.controlplane.slo.prometheus.promtool import LINKS

MAX_SERIES = 100_000
_OF_AN_ALERT = 2
"""ALERTS and ALERTS_FOR_STATE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Of one exporter, or of the rules."""

    name: str
    num_series: int


def shares(installation: Installation, num_gateways: int = 1) -> Iterator[Share]:
    """All that Prometheus keeps of it while nothing fires."""
    of_gateway = len(exposed.series_of(exposed.gateway(installation)))
    yield Share(name="gateways", num_series=num_gateways * of_gateway)
    of_replicas = (
        len(exposed.series_of(exposed.replica(deployment)))
        for deployment in installation.deployments
    )
    yield Share(name="replicas", num_series=sum(of_replicas))
    yield Share(name="control plane", num_series=len(exposed.control_plane(installation)))
    recorded = recorded_by_name(installation)
    readings = sum(number for name, number in recorded.items() if name.endswith(":reading"))
    whole = sum(recorded.values()) + (num_gateways - 1) * readings
    yield Share(name="recorded by rules", num_series=whole)


def firing_at_once(installation: Installation) -> int:
    """Series of alerts when every budget burns at every grade."""
    alerts = (
        rule
        for deployment in installation.deployments
        for group in watched_groups(installation.promises(deployment), LINKS).groups
        for rule in group.rules
        if isinstance(rule, AlertRule)
    )
    return _OF_AN_ALERT * sum(1 for _ in alerts)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--deployments", type=int, default=50)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--tenants", type=int, default=200)
    parser.add_argument("--gateways", type=int, default=1)
    asked = parser.parse_args()
    installation = Installation(
        num_deployments=asked.deployments, num_classes=asked.classes, num_tenants=asked.tenants
    )
    found = list(shares(installation, asked.gateways))
    for share in found:
        print(f"{share.name:20} {share.num_series:>8,}")
    print(f"{'together':20} {sum(share.num_series for share in found):>8,}")
    print(f"{'if all alerts fire':20} {firing_at_once(installation):>8,} more")


if __name__ == "__main__":
    main()
