"""What lies in `alerts/` is what the code makes, and what Prometheus and Alertmanager take."""

import subprocess

import pytest

from ops.render_alerts import FOLDER, rendered
from tests.controlplane.slo.prometheus.promtool import check
from tests.programs import find_program

FILES = sorted(path.name for path in FOLDER.glob("*.yml"))
RULES = [name for name in FILES if name.endswith(".rules.yml")]


def test_every_file_is_made_and_every_one_that_is_made_is_there() -> None:
    assert sorted(rendered()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_as_it_would_be_made_now(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == rendered()[name], (
        "run `python -m ops.render_alerts`"
    )


def test_prometheus_takes_all_of_them_together() -> None:
    check(FOLDER, RULES)


def test_alertmanager_takes_its_own() -> None:
    path = FOLDER / "alertmanager.yml"
    subprocess.run([find_program("amtool"), "check-config", path], check=True, capture_output=True)
