"""`pilothouse slo test-alert --alertmanager`: by a real Alertmanager to a control plane."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.slo.prometheus.alertmanager import SELF_TEST, Delivery, render_alertmanager
from controlplane.slo.prometheus.alerts_of_alerting import WATCHDOG
from tests.alerts.alerting_servers import running_alertmanager
from tests.controlplane.control_plane_server import serve_control_plane

pytestmark = pytest.mark.timeout(120)

_NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_control_plane(tmp_path_factory.mktemp("state")) as (url, _):
        yield url


def _try(alertmanager: str, control_plane: str, wait: str = "1") -> Result:
    words = ["slo", "test-alert", "--alertmanager", alertmanager, "--wait", wait]
    return CliRunner().invoke(main, [*words, "--url", control_plane])


def _delivering_to(url: str) -> str:
    return render_alertmanager(Delivery(control_plane_url=url), [])


def _tell_watchdog(alertmanager: str) -> None:
    """As Prometheus does."""
    labels = {"alertname": WATCHDOG.name, "severity": "none"}
    httpx.post(f"{alertmanager}/api/v2/alerts", json=[{"labels": labels}]).raise_for_status()


def _firing(alertmanager: str) -> set[str]:
    found = httpx.get(f"{alertmanager}/api/v2/alerts").json()
    return {each["labels"]["alertname"] for each in found}


def test_it_is_heard_and_so_is_its_end(control_plane: str, tmp_path: Path) -> None:
    with running_alertmanager(tmp_path, _delivering_to(control_plane)) as alertmanager:
        _tell_watchdog(alertmanager)
        answer = _try(alertmanager, control_plane, wait="60")
    assert answer.exit_code == 0, answer.output
    incident_id = answer.stdout.splitlines()[1].rpartition(" ")[2]
    detail = httpx.get(f"{control_plane}/api/v1/incidents/{incident_id}").json()
    assert detail["incident"]["state"] == "resolved"
    assert detail["alerts"][0]["name"] == SELF_TEST


def test_where_prometheus_tells_alertmanager_nothing_it_says_so_and_sends_nothing(
    control_plane: str, tmp_path: Path
) -> None:
    with running_alertmanager(tmp_path, _delivering_to(control_plane)) as alertmanager:
        answer = _try(alertmanager, control_plane)
        assert _firing(alertmanager) == set()
    assert answer.exit_code == ExitCode.FAILED
    assert WATCHDOG.name in answer.stderr


def test_where_alertmanager_does_not_deliver_it_says_so_and_leaves_no_alert_behind(
    control_plane: str, tmp_path: Path
) -> None:
    with running_alertmanager(tmp_path, _delivering_to(_NOWHERE)) as alertmanager:
        _tell_watchdog(alertmanager)
        answer = _try(alertmanager, control_plane)
        assert _firing(alertmanager) == {WATCHDOG.name}
    assert answer.exit_code == ExitCode.FAILED
    assert "has not heard" in answer.stderr


@pytest.mark.parametrize("address", [_NOWHERE, "127.0.0.1", "http://["])
def test_an_address_without_an_alertmanager_is_named(control_plane: str, address: str) -> None:
    answer = _try(address, control_plane)
    assert answer.exit_code == ExitCode.UNREACHABLE
    assert address in answer.stderr


def test_a_server_that_is_no_alertmanager_is_named(control_plane: str) -> None:
    assert _try(control_plane, control_plane).exit_code == ExitCode.UNREACHABLE
