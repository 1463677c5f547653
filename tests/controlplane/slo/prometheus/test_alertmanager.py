"""Alertmanager's configuration, as its own tool and a running one read it."""

import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.slo.prometheus.alertmanager import (
    SELF_TEST,
    Delivery,
    alertmanager_config,
    left_out_of,
    render_alertmanager,
)
from controlplane.slo.prometheus.alerts_of_alerting import WATCHDOG
from controlplane.slo.prometheus.static_alerts import STATIC_ALERTS
from tests.alerts.alerting_servers import running_alertmanager
from tests.controlplane.slo.prometheus.promtool import LINKS
from tests.programs import find_program

_NOBODY_LISTENS = "http://127.0.0.1:9"
PLAIN = Delivery(control_plane_url=f"{_NOBODY_LISTENS}/")
GUARDED = Delivery(
    control_plane_url="http://console:8700",
    credentials_file="/etc/alertmanager/key/alertmanager.key",
    watchdog_url_file="/etc/alertmanager/key/watchdog-url",
)


def _amtool(*arguments: str) -> str:
    done = subprocess.run(
        [find_program("amtool"), *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("delivery", [PLAIN, GUARDED], ids=["plain", "guarded"])
def test_it_is_what_alertmanager_takes(delivery: Delivery, tmp_path: Path) -> None:
    text = render_alertmanager(delivery, ["Made for a test."])
    # Debian 12 has 0.25, which knows no url_file: the guide says what to write instead.
    path = tmp_path / "alertmanager.yml"
    path.write_text(text.replace("url_file: /etc", "url: http://watchdog.example/etc"))
    _amtool("check-config", str(path))


@pytest.mark.parametrize(
    ("labels", "receiver"),
    [
        ("alertname=PilothouseWatchdog severity=none", "watchdog"),
        ("alertname=PilothouseSelfTest severity=ticket instance=x", "control-plane"),
        ("alertname=PilothouseBudgetBurn severity=page deployment=chat", "control-plane"),
        ("alertname=PilothouseQueueOld severity=ticket", "control-plane"),
        ("alertname=NodeDiskFull severity=page", "nobody"),
    ],
)
def test_each_alert_goes_to_who_should_hear_of_it(
    labels: str, receiver: str, tmp_path: Path
) -> None:
    path = tmp_path / "alertmanager.yml"
    path.write_text(render_alertmanager(PLAIN, []))
    routed = _amtool("config", "routes", "test", f"--config.file={path}", *labels.split())
    assert routed == receiver


def test_every_alert_of_ours_goes_somewhere(tmp_path: Path) -> None:
    path = tmp_path / "alertmanager.yml"
    path.write_text(render_alertmanager(PLAIN, []))
    rules = [alert.rule(LINKS) for alert in STATIC_ALERTS]
    for severity in {rule.labels["severity"] for rule in rules if rule.alert != WATCHDOG.name}:
        labels = ("alertname=PilothouseAny", f"severity={severity}")
        assert _amtool("config", "routes", "test", f"--config.file={path}", *labels) != "nobody"


def test_the_key_and_the_service_outside_are_named_where_they_are_wanted() -> None:
    receivers = {each["name"]: each for each in alertmanager_config(GUARDED)["receivers"]}
    (here,) = receivers["control-plane"]["webhook_configs"]
    assert here["url"] == "http://console:8700/api/v1/alerts/alertmanager"
    assert here["send_resolved"]
    shown = here["http_config"]["authorization"]
    assert shown == {"type": "Bearer", "credentials_file": GUARDED.credentials_file}
    *_, outside = receivers["watchdog"]["webhook_configs"]
    assert outside == {"url_file": GUARDED.watchdog_url_file, "send_resolved": False}
    assert left_out_of(GUARDED) == []


def test_without_a_service_outside_its_absence_is_said_and_no_key_is_shown() -> None:
    receivers = {each["name"]: each for each in alertmanager_config(PLAIN)["receivers"]}
    (here,) = receivers["watchdog"]["webhook_configs"]
    assert "http_config" not in here
    (sentence,) = left_out_of(PLAIN)
    assert "--watchdog-url-file" in sentence


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    config = render_alertmanager(PLAIN, ["Made for a test."])
    with running_alertmanager(tmp_path_factory.mktemp("alertmanager"), config) as url:
        yield url


def _silenced(url: str, *alerts: dict[str, str]) -> set[str]:
    """Names of those that say nothing while all of `alerts` fire; then they end."""
    now = datetime.now(UTC)
    posted = [{"labels": labels, "startsAt": now.isoformat()} for labels in alerts]
    httpx.post(f"{url}/api/v2/alerts", json=posted).raise_for_status()
    try:
        return _suppressed(url, len(alerts))
    finally:
        ended = [{**each, "endsAt": (now + timedelta(seconds=1)).isoformat()} for each in posted]
        httpx.post(f"{url}/api/v2/alerts", json=ended).raise_for_status()
        while _listed(url):
            time.sleep(0.05)


def _suppressed(url: str, num: int) -> set[str]:
    """Once Alertmanager has looked at all of them."""
    while len(found := _listed(url)) < num or any(
        each["status"]["state"] == "unprocessed" for each in found
    ):
        time.sleep(0.05)
    return {
        each["labels"]["alertname"] for each in found if each["status"]["state"] == "suppressed"
    }


def _listed(url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = httpx.get(f"{url}/api/v2/alerts").json()
    return found


def _page(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": name, "severity": "page", **labels}


def _ticket(name: str, **labels: str) -> dict[str, str]:
    return {"alertname": name, "severity": "ticket", **labels}


@pytest.mark.timeout(60)
def test_a_page_about_a_deployment_silences_its_tickets_and_nobody_elses(alertmanager: str) -> None:
    assert _silenced(
        alertmanager,
        _page("Burns", deployment="chat"),
        _page("BurnsToo", deployment="chat"),
        _ticket("Slow", deployment="chat"),
        _ticket("Elsewhere", deployment="batch"),
        _ticket("OfNone"),
    ) == {"Slow"}


@pytest.mark.timeout(60)
def test_a_page_about_no_deployment_silences_no_ticket_of_none(alertmanager: str) -> None:
    found = _silenced(alertmanager, _page("PilothouseGatewayDown"), _ticket("OfNone"))
    assert found == set()


@pytest.mark.timeout(60)
def test_a_control_plane_that_is_gone_silences_what_follows_and_holds_the_watchdog_back(
    alertmanager: str,
) -> None:
    assert _silenced(
        alertmanager,
        _page("PilothouseNoControlPlane"),
        _ticket("PilothouseControlPlaneDown", instance="a:8700"),
        _ticket("PilothouseRecordsWaiting", instance="a:8701"),
        _ticket("PilothouseQueueOld", instance="a:8701"),
        {"alertname": "PilothouseWatchdog", "severity": "none"},
    ) == {"PilothouseControlPlaneDown", "PilothouseRecordsWaiting", "PilothouseWatchdog"}


@pytest.mark.timeout(60)
def test_what_is_not_delivered_holds_the_watchdog_back(alertmanager: str) -> None:
    assert _silenced(
        alertmanager,
        _ticket("PilothouseNotificationsFailing", instance="a:9093", integration="webhook"),
        _ticket(SELF_TEST, instance="x"),
        {"alertname": "PilothouseWatchdog", "severity": "none"},
    ) == {"PilothouseWatchdog"}
