"""What lies in `alerts/` is what the code makes, and what Prometheus takes."""

import pytest

from ops.render_alerts import FOLDER, rendered
from tests.controlplane.slo.prometheus.promtool import check

FILES = sorted(path.name for path in FOLDER.glob("*.rules.yml"))


def test_every_file_is_made_and_every_one_that_is_made_is_there() -> None:
    assert sorted(rendered()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_as_it_would_be_made_now(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == rendered()[name], (
        "run `python -m ops.render_alerts`"
    )


def test_prometheus_takes_all_of_them_together() -> None:
    check(FOLDER, FILES)
