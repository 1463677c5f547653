"""The last diagnosis through the API: what, how old, and why there is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from controlplane.api.diagnosis_metrics import collect_diagnosis
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.worker import DiagnosisWorker
from dataplane import names
from dataplane.clock import WallClock, wall_clock
from dataplane.plugins import PluginError
from ops.seeded_console import close_app, create_app, seed
from tests.databases import SqliteDatabases


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    made = create_app(tmp_path, SqliteDatabases(tmp_path).urls())
    seed(made, wall_clock(), num_requests=0)
    yield made
    close_app(made)


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1")


def test_it_says_what_how_sure_how_old_and_which_incident(client: TestClient) -> None:
    view = client.get("/api/v1/deployments/chat/diagnosis").json()
    assert view["mechanism"] == "cache.thrash"
    assert view["confidence"] == view["diagnosis"]["confidence"]
    assert view["diagnosis"]["findings"][0]["evidence"]
    assert 7 < view["age_seconds"] < 120
    assert (view["num_replicas"], view["num_telling"]) == (2, 1)
    open_ones = client.get("/api/v1/incidents?state=open").json()["incidents"]
    assert view["incident_id"] == open_ones[0]["incident_id"]


def test_of_all_it_is_one_list(client: TestClient) -> None:
    listed = client.get("/api/v1/diagnosis").json()
    found = {each["deployment"]: each["mechanism"] for each in listed["diagnoses"]}
    assert found["chat"] == "cache.thrash"
    assert found["summarize"] != "cache.thrash"


def test_why_there_is_none_is_said(app: FastAPI, client: TestClient) -> None:
    assert client.get("/api/v1/deployments/nobody/diagnosis").status_code == 404
    app.state.diagnosis.diagnoses.keep_only(frozenset())
    none = client.get("/api/v1/deployments/chat/diagnosis").json()
    assert (none["diagnosis"], "not looked at yet" in none["why_none"]) == (None, True)
    app.state.observed.set_replicas([])
    none = client.get("/api/v1/deployments/chat/diagnosis").json()
    assert "nothing of it runs" in none["why_none"]
    app.state.diagnosis = worker(app, AlwaysOnSettings(is_on=False))
    none = client.get("/api/v1/deployments/chat/diagnosis").json()
    assert (none["is_on"], "--diagnosis on" in none["why_none"]) == (False, True)


def test_what_is_open_is_a_trouble_of_the_overview_and_a_mark_in_charts(
    client: TestClient,
) -> None:
    troubles = client.get("/api/v1/overview").json()["troubles"]
    (found,) = [each for each in troubles if "cache.thrash" in each["what"]]
    assert "anna looks after it" in found["what"]
    assert "`pilothouse incidents " in found["remedy"]
    assert "runbook cache-thrash" in found["remedy"]
    marks = client.get("/api/v1/series?range=6h&deployment=chat").json()["marks"]
    assert "cache.thrash" in next(mark["text"] for mark in marks if mark["kind"] == "incident")
    incident_id = client.get("/api/v1/incidents?state=open").json()["incidents"][0]["incident_id"]
    changes = client.get(f"/api/v1/incidents/{incident_id}").json()["changes"]
    assert "incident" not in [each["kind"] for each in changes], "an incident is no change"


def test_metrics_count_what_is_open_and_how_old_answers_are(app: FastAPI) -> None:
    class Told(Collector):
        def collect(self) -> Iterator[Metric]:
            return collect_diagnosis(app.state)

    registry = CollectorRegistry()
    registry.register(Told())
    text = generate_latest(registry).decode()
    assert (
        f'{names.CONTROLPLANE_INCIDENTS_OPEN}{{deployment="chat",mechanism="cache.thrash"}} 1.0'
        in text
    )
    assert f'{names.CONTROLPLANE_DIAGNOSIS_AGE_SECONDS}{{deployment="summarize"}}' in text


def test_a_plugin_of_rules_that_is_not_there_is_told_at_the_start(app: FastAPI) -> None:
    with pytest.raises(PluginError, match="nobody"):
        worker(app, AlwaysOnSettings(rule_plugins=("nobody",))).start()


def test_a_thread_that_dies_is_a_failure_that_everybody_sees(
    app: FastAPI, client: TestClient
) -> None:
    def end() -> int:
        raise SystemExit("a rule of a plugin calls exit()")

    dying = app.state.diagnosis = worker(app, AlwaysOnSettings(), clock=end)
    dying.start()
    while dying.is_alive:
        dying.wait(0.05)
    told = client.get("/api/v1/diagnosis").json()["error"]
    assert "it ended" in told
    assert "calls exit()" in told
    assert dying.num_failed_passes == 1
    dying.stop()


def worker(
    app: FastAPI, settings: AlwaysOnSettings, clock: WallClock = wall_clock
) -> DiagnosisWorker:
    state = app.state
    return DiagnosisWorker(
        state.config_db,
        state.request_db,
        state.observed,
        state.process_history,
        Path(),
        settings,
        clock,
    )
