"""What Prometheus records of a large installation by our rules, as its own evaluator counts it."""

import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from controlplane.slo.prometheus.burning import burning_groups
from controlplane.slo.prometheus.counting import counting_groups
from controlplane.slo.prometheus.rules import render
from dataplane import names
from ops.bench.slo.installation import Installation
from tests.controlplane.slo.prometheus.promtool import LINKS, told

_PROCESS = 'job="pilothouse-gateway",instance="a:8701"'
_AT = "8m"
_VALUES = "0x32"


def recorded_by_name(installation: Installation) -> dict[str, int]:
    """Series by the name of their rule, after some minutes of traffic without trouble.

    Evaluated for one deployment and for two: what the second adds, each further one adds. promtool
    takes no more samples in one query than those of some deployments.
    """
    one, two = (_counted(replace(installation, num_deployments=number)) for number in (1, 2))
    return {
        name: one[name] + (number - one[name]) * (installation.num_deployments - 1)
        for name, number in two.items()
    }


def _counted(installation: Installation) -> dict[str, int]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = ["counting.yml"]
        (folder / files[0]).write_text(render(counting_groups(), []))
        for deployment in installation.deployments:
            burning = burning_groups(installation.promises(deployment), LINKS)
            files.append(f"{deployment}.yml")
            (folder / files[-1]).write_text(render(burning.groups, []))
        counted = told(
            folder,
            files,
            _series(installation),
            expr='count by (name) (label_replace({__name__=~"pilothouse:.+"}, "name", "$1", '
            '"__name__", "(.+)"))',
            at=_AT,
        )
    return {re.sub(r'.*name="([^"]+)".*', r"\1", labels): int(n) for labels, n in counted.items()}


def _series(installation: Installation) -> dict[str, str]:
    found = {
        f"process_start_time_seconds{{{_PROCESS}}}": _VALUES,
        f"{names.GATEWAY_SNAPSHOT_VERSION}{{{_PROCESS}}}": _VALUES,
    }
    for deployment in installation.deployments:
        for promise in installation.promises(deployment):
            labels = (
                f'{_PROCESS},deployment="{deployment}",request_class="{promise.request_class}",'
                f'objective="{promise.objective}"'
            )
            for counter in (
                names.GATEWAY_OBJECTIVE_JUDGED_TOTAL,
                names.GATEWAY_OBJECTIVE_GOOD_TOTAL,
            ):
                found[f"{counter}{{{labels}}}"] = "0+100x32"
    return found
