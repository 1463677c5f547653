"""A deployment is overloaded: its budget burns, Prometheus' rule fires, Alertmanager calls the
control plane, an incident opens; the load ends, and it resolves. Nothing is played here."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import httpx
import pytest

from dataplane import names
from tests.e2e.alerting_stack import Alerting, alerting_stack
from tests.e2e.served import Served, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

AT_MOST = 1
CONTRACT = f"""
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {{name: simulated-chat}}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {{signal: ttft, at_most: {AT_MOST}s, for: 95%}}
  alerting: {{off: [page_slow, ticket_quick, ticket_slow]}}
"""
BURN = "PilothouseBudgetBurn"
BURN_RATE = names.SLO_BURN_RATE.format("5m") + '{deployment="simulated-chat",objective="ttft"}'
_PAGE_QUICK = 14.4
_MANY = 96
"""Callers at once; sixteen have a slot."""
_FEW = 8


@pytest.fixture(scope="module")
def alerting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alerting]:
    with alerting_stack(tmp_path_factory.mktemp("alerting"), CONTRACT) as stack:
        yield stack


@contextmanager
def callers(served: Served, number: int, max_tokens: int) -> Iterator[None]:
    """So many that each ask again as soon as they are answered."""
    is_over = Event()

    def call() -> None:
        body = {"model": "bytes", "prompt": "Once", "max_tokens": max_tokens, "ignore_eos": True}
        with httpx.Client(timeout=60) as client:
            while not is_over.is_set():
                client.post(f"{served.gateway_url}/v1/completions", json=body).raise_for_status()

    with ThreadPoolExecutor(number) as pool:
        asked = [pool.submit(call) for _ in range(number)]
        try:
            yield
        finally:
            is_over.set()
            for each in asked:
                each.result()


def alerted(served: Served) -> dict[str, Any] | None:
    """The incident that Alertmanager told of, whole; None: there is none."""
    for each in served.get("/api/v1/incidents")["incidents"]:
        detail: dict[str, Any] = served.get(f"/api/v1/incidents/{each['incident_id']}")
        for alert in detail["alerts"]:
            sources = {telling["source"] for telling in alert["sources"]}
            if alert["name"] == BURN and "alertmanager" in sources:
                return detail
    return None


def test_the_watchdog_comes_again_and_again_to_the_service_outside_and_to_us(
    alerting: Alerting,
) -> None:
    wait_for(lambda: alerting.outside.num_heard >= 2, 60, "the watchdog, twice")
    (heard,) = alerting.served.get("/api/v1/alerts")["heard"]
    assert heard["source"] == "alertmanager"
    assert heard["state"] == "well"


def test_an_overload_becomes_an_incident_and_its_end_resolves_it(alerting: Alerting) -> None:
    served = alerting.served
    with callers(served, _MANY, max_tokens=60):
        wait_for(
            lambda: (alerting.value(BURN_RATE) or 0) > _PAGE_QUICK, 60, "the burn rate to rise"
        )
        wait_for(lambda: alerting.firing(BURN), 60, "the alert to fire")
        incident = wait_for(lambda: alerted(served), 60, "Alertmanager to call")
    check_incident(served, incident)
    with callers(served, _FEW, max_tokens=1):
        wait_for(lambda: not alerting.firing(BURN), 60, "the alert to end")
    incident_id = incident["incident"]["incident_id"]
    wait_for(
        lambda: served.get(f"/api/v1/incidents/{incident_id}")["incident"]["state"] == "resolved",
        60,
        "the incident to resolve",
    )


def check_incident(served: Served, detail: dict[str, Any]) -> None:
    """It says what burnt, of which contract, and which requests spent the budget."""
    line = detail["incident"]
    assert line["deployment"] == "simulated-chat"
    assert line["state"] == "open"
    (alert,) = [each for each in detail["alerts"] if each["name"] == BURN]
    assert alert["grade"] == "page_quick"
    assert alert["contract_revision"] == "simulated-chat@2"
    assert alert["runbook_url"].endswith("/runbooks/budget-burn")
    page = httpx.get(f"{served.url}/incidents/{line['incident_id']}", timeout=10).text
    assert alert["summary"] in page
    spenders = set(re.findall(r'href="/requests/([0-9a-f]{32})"', page))
    assert spenders
    for request_id in spenders:
        assert served.get(f"/api/v1/requests/{request_id}")["request"]["ttft_seconds"] > AT_MOST


def test_a_test_alert_goes_the_whole_way_and_comes_to_its_end(alerting: Alerting) -> None:
    wait_for(lambda: alerting.outside.num_heard, 60, "the watchdog")
    said = alerting.pilothouse(
        "slo", "test-alert", "--alertmanager", alerting.alertmanager
    ).splitlines()
    assert len(said) == 3
    assert "PilothouseWatchdog" in said[0]
    incident_id = said[1].rpartition(" ")[2]
    incident = alerting.served.get(f"/api/v1/incidents/{incident_id}")["incident"]
    assert incident["deployment"] is None
    assert incident["state"] == "resolved"
