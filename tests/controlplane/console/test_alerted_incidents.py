"""Incidents that alerts tell of, on their pages: who says so, what spent the budget, what to do."""

import time
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api.marks import read_incident_marks
from controlplane.slo.alert import AlertSource
from controlplane.slo.silences import SilenceKind, SilenceScope
from controlplane.store.alerting_heard import AlertingHeard, keep_heard
from controlplane.store.series import SeriesSpan
from controlplane.store.silences import NewSilence, add_silence
from ops.seeded_console import seed
from ops.seeded_incidents import store_alerts
from tests.controlplane.console.reading import page, words


@pytest.fixture
def alerted(app: FastAPI) -> None:
    now = time.time_ns()
    seed(app, now)
    store_alerts(app.state.config_db, now)


def detail(client: TestClient, deployment: str | None) -> dict[str, Any]:
    found = client.get(f"/api/v1/incidents?state=open&deployment={deployment or ''}").json()
    [incident] = [each for each in found["incidents"] if each["deployment"] == deployment]
    whole: dict[str, Any] = client.get(f"/api/v1/incidents/{incident['incident_id']}").json()
    return whole


@pytest.mark.usefixtures("alerted")
def test_the_requests_that_spent_the_budget_are_those_that_missed_the_objective(
    client: TestClient,
) -> None:
    whole = detail(client, "chat")
    [spent] = whole["spent"]
    assert (spent["request_class"], spent["objective"]) == ("interactive", "ttft")
    assert (len(spent["requests"]), spent["has_more"]) == (5, True)
    # What it looked back on when it fired: an hour.
    [alert] = whole["alerts"]
    assert alert["started_at_unix_ns"] - spent["since_unix_ns"] == 3600 * 10**9
    listed = client.get(f"/api/v1/requests?{spent['requests_query']}&limit=5").json()["requests"]
    assert listed == spent["requests"]
    limit = spent["standing"]["at_most_seconds"]
    assert all(each["ttft_seconds"] > limit for each in listed)
    assert spent["standing"]["contract_revision"].startswith("chat@")


@pytest.mark.usefixtures("alerted")
def test_an_alert_stands_with_what_was_found_of_the_same_trouble(client: TestClient) -> None:
    whole = detail(client, "chat")
    html = page(client, f"/incidents/{whole['incident']['incident_id']}")
    said = words(html)
    assert whole["incident"]["mechanism"] == "cache.thrash"
    assert "▲ page quick interactive ttft" in said
    assert "By contract chat@2." in said
    assert {each["source"] for each in whole["alerts"][0]["sources"]} == {
        "control_plane",
        "alertmanager",
    }
    assert 'href="/runbooks/budget-burn"' in html
    shown = whole["spent"][0]["requests"][0]["request_id"]
    assert f'href="/requests/{shown}"' in html
    query = whole["spent"][0]["requests_query"].partition("&until=")[0]
    assert query.replace("&", "&amp;") in html


@pytest.mark.usefixtures("alerted")
def test_what_is_silenced_fires_and_says_by_whom_and_why(app: FastAPI, client: TestClient) -> None:
    wanted = NewSilence(
        kind=SilenceKind.SILENCE,
        scope=SilenceScope(deployment="summarize"),
        reason="moving racks",
        seconds=7200,
    )
    with app.state.config_db.session() as session:
        add_silence(session, wanted, actor="anna")
    whole = detail(client, "summarize")
    [alert] = whole["alerts"]
    assert (alert["ended_at_unix_ns"], alert["silenced"]["reason"]) == (None, "moving racks")
    said = words(page(client, f"/incidents/{whole['incident']['incident_id']}"))
    assert "fires silenced until" in said
    [firing] = client.get("/api/v1/alerts?deployment=summarize").json()["alerts"]
    assert firing == alert


@pytest.mark.usefixtures("alerted")
def test_one_of_the_installation_has_no_deployment_and_a_runbook(client: TestClient) -> None:
    whole = detail(client, None)
    html = page(client, f"/incidents/{whole['incident']['incident_id']}")
    assert (whole["incident"]["mechanism"], whole["incident"]["severity"]) == (None, "page")
    assert "on the installation, incident" in words(html)
    assert 'href="/runbooks/gateway-restart"' in html
    assert whole["spent"] == []


@pytest.mark.usefixtures("alerted")
def test_the_list_has_what_fires_first_in_the_words_of_its_alert(client: TestClient) -> None:
    said = words(page(client, "/incidents"))
    assert "▲ 3 incidents are open." in said
    assert "◆ The error budget of summarize batch ttft is burning" in said
    assert "Alerting was heard" in said


@pytest.mark.usefixtures("alerted")
def test_alerting_that_is_not_heard_is_told_on_the_list(app: FastAPI, client: TestClient) -> None:
    old = AlertingHeard(
        source=AlertSource.ALERTMANAGER, heard_at_unix_ns=time.time_ns() - 720 * 10**9
    )
    with app.state.config_db.session() as session:
        keep_heard(session, old)
    html = page(client, "/incidents")
    assert "○ Alerting was not heard for" in words(html)
    assert 'href="/runbooks/alerting-silent"' in html


@pytest.mark.usefixtures("alerted")
def test_what_alerts_alone_tell_of_is_a_mark_and_a_state_of_its_deployment(
    app: FastAPI, client: TestClient
) -> None:
    [summarize] = [
        each
        for each in client.get("/api/v1/overview").json()["deployments"]
        if each["name"] == "summarize"
    ]
    figures = {part["about"]: part["figure"] for part in summarize["state"]["parts"]}
    assert figures["incidents"] == "The error budget of summarize batch ttft is burning"
    now = time.time_ns() // 10**9
    span = SeriesSpan(start_unix=now - 7200, end_unix=now + 60, step_seconds=60)
    marks = {mark.deployment: mark for mark in read_incident_marks(app.state.config_db, span, None)}
    assert marks[""].text.endswith("A gateway does not answer")
    assert marks["summarize"].kind == "incident"
