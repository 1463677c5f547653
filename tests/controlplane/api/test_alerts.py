"""Alertmanager's webhook, and what fires now: over HTTP, as Alertmanager sends it."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from controlplane.api.alerts import MAX_BODY_BYTES
from controlplane.slo.alert import AlertSource
from controlplane.store.alerting_heard import AlertingHeard, keep_heard
from dataplane.access import Role
from dataplane.clock import wall_clock
from tests.controlplane.guarded_plane import GuardedPlane, guarded_plane

HOOK = "/api/v1/alerts/alertmanager"
NEVER = "0001-01-01T00:00:00Z"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        yield plane


@pytest.fixture
def alertmanager(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.ALERTMANAGER, name="alertmanager"))


@pytest.fixture
def viewer(plane: GuardedPlane) -> TestClient:
    return plane.bearing(plane.key(Role.VIEWER, name="eve"))


def at(seconds: float) -> str:
    """As Alertmanager writes instants; from now."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def burn(*, started: str, ended: str = NEVER, **labels: str) -> dict[str, Any]:
    return {
        "status": "firing" if ended == NEVER else "resolved",
        "labels": {
            "alertname": "PilothouseBudgetBurn",
            "severity": "page",
            "grade": "page_quick",
            "deployment": "chat",
            "request_class": "interactive",
            "objective": "ttft",
            "cluster": "eu-1",
        }
        | labels,
        "annotations": {
            "summary": "The error budget of chat interactive ttft is burning",
            "description": "20 % missed",
            "runbook_url": "http://console.test/runbooks/budget-burn",
            "dashboard_url": "http://console.test/deployments/chat",
            "contract_revision": "chat@7",
        },
        "startsAt": started,
        "endsAt": ended,
        "generatorURL": "http://prometheus.test/graph",
        "fingerprint": "c6eadffa33fcdf37",
    }


def named(name: str, severity: str, status: str = "firing", **labels: str) -> dict[str, Any]:
    return {
        "status": status,
        "labels": {"alertname": name, "severity": severity} | labels,
        "annotations": {},
        "startsAt": at(-600),
        "endsAt": NEVER if status == "firing" else at(-30),
    }


def delivery(*alerts: dict[str, Any], truncated: int = 0) -> dict[str, Any]:
    return {
        "version": "4",
        "groupKey": '{}:{deployment="chat"}',
        "truncatedAlerts": truncated,
        "status": "firing",
        "receiver": "control-plane",
        "groupLabels": {"deployment": "chat"},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager.test:9093",
        "alerts": list(alerts),
    }


def figure(client: TestClient, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    found = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} ")]
    return float(found[0])


def test_what_is_delivered_fires_with_its_incident_until_it_is_resolved(
    alertmanager: TestClient, viewer: TestClient
) -> None:
    started = at(-60)
    taken = alertmanager.post(HOOK, json=delivery(burn(started=started)))
    assert taken.status_code == 200, taken.text
    assert (taken.json()["num_taken"], taken.json()["refused"]) == (1, [])
    [firing] = viewer.get("/api/v1/alerts").json()["alerts"]
    assert firing["grade"] == "page_quick"
    assert (firing["contract_revision"], firing["instance"]) == ("chat@7", None)
    assert [each["source"] for each in firing["sources"]] == ["alertmanager"]
    path = f"/api/v1/incidents/{firing['incident_id']}"
    whole = viewer.get(path).json()
    assert (whole["incident"]["severity"], whole["incident"]["num_firing"]) == ("page", 1)
    assert whole["incident"]["runbook"] == "ops/runbooks/budget-burn.md"
    assert whole["alerts"] == [firing]

    alertmanager.post(HOOK, json=delivery(burn(started=started, ended=at(-5))))
    assert viewer.get("/api/v1/alerts").json()["alerts"] == []
    over = viewer.get(path).json()["incident"]
    assert (over["state"], over["severity"]) == ("resolved", None)


def test_alerts_can_be_asked_for_by_deployment_and_of_the_installation(
    alertmanager: TestClient, viewer: TestClient
) -> None:
    gateway = named("PilothouseGatewayDown", "page", instance="127.0.0.1:8701")
    alertmanager.post(HOOK, json=delivery(burn(started=at(-60)), gateway))

    def names_of(query: str) -> list[str]:
        return [each["name"] for each in viewer.get(f"/api/v1/alerts{query}").json()["alerts"]]

    assert len(names_of("")) == 2
    assert names_of("?deployment=chat") == ["PilothouseBudgetBurn"]
    assert names_of("?deployment=") == ["PilothouseGatewayDown"]
    assert names_of("?deployment=mail") == []


def test_an_objective_of_no_deployment_has_no_budget_that_requests_spent(
    alertmanager: TestClient, viewer: TestClient
) -> None:
    """A rule that somebody federated without its label: its class may be that of any deployment."""
    alertmanager.post(HOOK, json=delivery(burn(started=at(-60), deployment="")))
    [firing] = viewer.get("/api/v1/alerts?deployment=").json()["alerts"]
    assert firing["objective"] == "ttft"
    assert viewer.get(f"/api/v1/incidents/{firing['incident_id']}").json()["spent"] == []


def test_processes_are_told_apart_by_the_label_that_names_them(
    alertmanager: TestClient, viewer: TestClient
) -> None:
    own = {"instance": "127.0.0.1:8700"}
    alertmanager.post(
        HOOK,
        json=delivery(
            named("PilothouseTelemetryStale", "ticket", gateway="gateway-0", **own),
            named("PilothouseTelemetryStale", "ticket", gateway="gateway-1", **own),
            named("PilothouseRulesFailing", "ticket", rule_group="a", **own),
            named("PilothouseRulesFailing", "ticket", rule_group="b", **own),
        ),
    )
    found = viewer.get("/api/v1/alerts").json()["alerts"]
    assert {each["instance"] for each in found} == {
        "gateway-0",
        "gateway-1",
        "127.0.0.1:8700 a",
        "127.0.0.1:8700 b",
    }


@pytest.mark.parametrize(
    ("alert", "reason"),
    [
        (named("NodeDown", "page"), "foreign"),
        (named("PilothouseOdd", "warning"), "severity"),
        (named("PilothouseLong", "page", deployment="x" * 129), "invalid"),
        (named("PilothouseOld", "page") | {"startsAt": NEVER}, "invalid"),
        (named("PilothouseOdd", "page", cluster="a\0b"), "invalid"),
        (named("PilothouseOdd", "page") | {"startsAt": "yesterday"}, "invalid"),
        (named("PilothouseOdd", "page") | {"startsAt": "2026-01-01T00:00:00"}, "invalid"),
        (
            named("PilothouseOdd", "page") | {"annotations": {"contract_revision": "x" * 129}},
            "invalid",
        ),
    ],
)
def test_what_is_not_ours_is_counted_and_named_and_keeps_nothing_else_back(
    alertmanager: TestClient, viewer: TestClient, alert: dict[str, Any], reason: str
) -> None:
    answer = alertmanager.post(HOOK, json=delivery(alert, burn(started=at(-60))))
    assert answer.status_code == 200
    assert answer.json()["num_taken"] == 1
    [refused] = answer.json()["refused"]
    assert (refused["name"], refused["reason"]) == (alert["labels"]["alertname"], reason)
    assert len(viewer.get("/api/v1/alerts").json()["alerts"]) == 1

    alone = alertmanager.post(HOOK, json=delivery(alert))
    assert alone.status_code == 422
    assert alert["labels"]["alertname"] in alone.json()["detail"]
    family = "pilothouse_controlplane_alerts_refused_total"
    assert figure(viewer, f'{family}{{reason="{reason}"}}') == 2
    assert figure(viewer, "pilothouse_controlplane_alerts_taken_total") == 1


def test_what_alertmanager_left_out_is_counted(
    alertmanager: TestClient, viewer: TestClient
) -> None:
    answer = alertmanager.post(HOOK, json=delivery(burn(started=at(-60)), truncated=3))
    assert answer.json()["num_refused"] == 3
    family = "pilothouse_controlplane_alerts_refused_total"
    assert figure(viewer, f'{family}{{reason="truncated"}}') == 3
    many = alertmanager.post(HOOK, json=delivery(truncated=2**31 - 1))  # and nobody makes a list
    assert many.status_code == 200
    assert alertmanager.post(HOOK, json=delivery(truncated=2**31)).status_code == 422


BAD = [
    ({"version": "4"}, "body.alerts"),
    ({"version": "1", "alerts": []}, "body.version"),
    ({"version": "4", "alerts": {}}, "body.alerts"),
    (delivery(truncated=-1), "body.truncatedAlerts"),
]


@pytest.mark.parametrize(("body", "place"), BAD)
def test_a_bad_payload_is_refused_by_its_place(
    alertmanager: TestClient, body: dict[str, Any], place: str
) -> None:
    answer = alertmanager.post(HOOK, json=body)
    assert answer.status_code == 422
    assert place in [each["where"] for each in answer.json()["problems"]]


@pytest.mark.parametrize(
    ("alert", "why"),
    [
        (7, "one without a name: the alert: "),
        ({"status": "firing"}, "one without a name: labels: "),
        ({"labels": {"alertname": "\ud800"}}, "one without a name: status: "),
        (burn(started=at(0)) | {"labels": {"\ud800": 5}}, r"one without a name: labels.\ufffd"),
        (burn(started="yesterday"), "PilothouseBudgetBurn: startsAt: "),
        (burn(started=at(0), cluster="a\0b"), "PilothouseBudgetBurn: labels.cluster: "),
    ],
)
def test_an_alert_that_cannot_be_read_is_refused_by_its_place(
    alertmanager: TestClient, alert: Any, why: str
) -> None:
    body = json.dumps(delivery(alert))
    answer = alertmanager.post(HOOK, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"none of the alerts was taken: {why}")


def test_an_end_that_lies_before_its_beginning_ends_it(
    alertmanager: TestClient, viewer: TestClient
) -> None:
    """Prometheus' clock was set back."""
    started = at(-60)
    alertmanager.post(HOOK, json=delivery(burn(started=started)))
    alertmanager.post(HOOK, json=delivery(burn(started=started, ended=at(-7200))))
    assert viewer.get("/api/v1/alerts").json()["alerts"] == []


def test_a_body_beyond_its_bound_is_refused(alertmanager: TestClient) -> None:
    large = b'{"version": "4", "alerts": [], "x": "' + b"y" * MAX_BODY_BYTES + b'"}'
    headers = {"content-type": "application/json"}
    assert alertmanager.post(HOOK, content=large, headers=headers).status_code == 413


@pytest.mark.parametrize("javascript", ["javascript:alert(1)", "//elsewhere.test", "x" * 2000])
def test_only_links_of_the_web_are_kept(
    alertmanager: TestClient, viewer: TestClient, javascript: str
) -> None:
    alert = burn(started=at(-60))
    alert["annotations"]["runbook_url"] = javascript
    alertmanager.post(HOOK, json=delivery(alert))
    [firing] = viewer.get("/api/v1/alerts").json()["alerts"]
    assert (firing["runbook_url"], firing["dashboard_url"]) == (
        None,
        "http://console.test/deployments/chat",
    )


def test_the_watchdog_opens_no_incident_and_says_that_alerting_works(
    alertmanager: TestClient, viewer: TestClient
) -> None:
    assert viewer.get("/api/v1/alerts").json()["heard"] == []
    answer = alertmanager.post(HOOK, json=delivery(named("PilothouseWatchdog", "none")))
    assert (answer.status_code, answer.json()["is_watchdog_heard"]) == (200, True)
    view = viewer.get("/api/v1/alerts").json()
    [heard] = view["heard"]
    assert (heard["state"], heard["told_by"]) == ("well", "http://alertmanager.test:9093")
    assert heard["age_seconds"] < 60
    assert view["alerts"] == viewer.get("/api/v1/incidents").json()["incidents"] == []
    assert figure(viewer, "pilothouse_controlplane_alerting_heard_age_seconds") < 60


def test_an_alertmanager_that_prometheus_left_says_so_and_an_old_word_is_silence(
    plane: GuardedPlane, alertmanager: TestClient, viewer: TestClient
) -> None:
    alertmanager.post(HOOK, json=delivery(named("PilothouseWatchdog", "none", "resolved")))
    assert viewer.get("/api/v1/alerts").json()["heard"][0]["state"] == "ended"
    troubles = viewer.get("/api/v1/overview").json()["troubles"]
    assert any("alerting-silent" in each["remedy"] for each in troubles)

    old = AlertingHeard(
        source=AlertSource.ALERTMANAGER, heard_at_unix_ns=wall_clock() - 720 * 10**9
    )
    with plane.app.state.config_db.session() as session:
        keep_heard(session, old)
    [heard] = viewer.get("/api/v1/alerts").json()["heard"]
    assert (heard["state"], heard["what"]) == ("silent", "alerting was not heard for 12 min")


@pytest.mark.parametrize(
    ("role", "status"),
    [
        (Role.ALERTMANAGER, 200),
        (Role.OPERATOR, 200),
        (Role.ADMIN, 200),
        (Role.VIEWER, 403),
        (Role.GATEWAY, 403),
    ],
)
def test_who_may_tell_of_alerts(plane: GuardedPlane, role: Role, status: int) -> None:
    teller = plane.bearing(plane.key(role, name="teller"))
    assert teller.post(HOOK, json=delivery(burn(started=at(-60)))).status_code == status


def test_alertmanagers_key_opens_nothing_else(alertmanager: TestClient) -> None:
    for path in ("/api/v1/alerts", "/api/v1/incidents", "/api/v1/config"):
        assert alertmanager.get(path).status_code == 403
    assert alertmanager.post("/api/v1/apply", json={"files": []}).status_code == 403
