"""Deployment pages: what runs, since when, what it was at an instant, and what to do."""

import re
import time
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.operator.observed import ObservedState
from ops.sample_requests import Sample, answered
from ops.seeded_console import seed, store
from ops.seeded_state import gateway_report, under_seeded_config
from tests.controlplane.console.reading import page

NOW_NS = time.time_ns()


def api(client: TestClient, path: str) -> Any:
    response = client.get(f"/api/v1{path}")
    assert response.status_code == 200, response.text
    return response.json()


def lead(html: str) -> str:
    found = re.search(r'<p class="lead">(.*?)</p>', html, re.DOTALL)
    assert found is not None
    return re.sub(r"<[^>]*>", "", found[1])


def test_the_first_line_says_what_is_wrong_and_what_to_do(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    html = page(client, "/deployments/summarize")
    assert "summarize cannot answer: 0 of 1 replicas ready" in lead(html)
    assert "pilothouse describe deployment summarize" in lead(html)
    assert "failed 2 times in a row, next start in 41 s" in html


def test_when_all_is_well_it_says_since_when_and_who_changed_what(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=0, has_trouble=False)
    kept = [answered(Sample(sequence=n, arrived_at_unix_ns=NOW_NS - n)) for n in range(400)]
    store(app, under_seeded_config(kept))
    words = lead(page(client, "/deployments/chat"))
    assert "All 3 replicas are ready" in words
    assert "policy chat@1 → chat@2, by ben" in words


def test_what_ran_at_an_instant_has_one_answer(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    then = api(client, "/deployments/chat?at=60m")
    assert [each["revision"] for each in then["revisions"] if each["role"] == "policy"] == [
        "chat@1"
    ]
    assert then["generation"] == 2
    assert then["num_ready"] == 3
    assert "chat ran generation 2" in lead(page(client, "/deployments/chat?at=60m"))
    long_ago = api(client, "/deployments/chat?at=10h")
    assert {lane["replica_id"]: lane["state"] for lane in long_ago["lanes"]} == {"chat-1": "ready"}
    assert long_ago["hold"] is None


def test_since_when_each_revision_runs_is_its_own_answer(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    since = {
        each["role"]: round((NOW_NS - each["since_unix_ns"]) / 60e9)
        for each in api(client, "/deployments/chat")["revisions"]
    }
    assert since == {
        "model": 1560, "engine config": 91, "policy": 21, "contract": 1560, "deployment": 1560,
    }  # fmt: skip


def test_a_change_links_to_the_difference_it_made(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    html = page(client, "/deployments/chat")
    assert 'href="/config/admissionpolicy/chat/diff?from=1&amp;to=2"' in html
    assert "classes[interactive].max_queue" in page(
        client, "/config/admissionpolicy/chat/diff?from=1&to=2"
    )


def test_memory_adds_up_and_what_an_engine_does_not_tell_stays_unknown(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=0)
    lanes = {lane["replica_id"]: lane for lane in api(client, "/deployments/chat")["lanes"]}
    memory = lanes["chat-3"]["load"]["memory"]
    assert sum(line["num_bytes"] for line in memory["lines"]) == memory["total_bytes"]
    blocks = memory["blocks"]
    assert blocks["used"] + blocks["cached"] + blocks["free"] == blocks["total"]
    assert lanes["chat-4"]["load"]["memory"]["lines"] is None
    html = page(client, "/deployments/chat")
    assert "Unknown: engine paged tells no memory ledger." in html
    widths = [float(w) for w in re.findall(r'class="part [^"]*" x="[\d.]+" width="([\d.]+)"', html)]
    assert sum(widths) == pytest.approx(2 * 1000, abs=1)


def test_a_replica_that_failed_is_a_lane_with_its_reason(app: FastAPI, client: TestClient) -> None:
    seed(app, NOW_NS, num_requests=0)
    html = page(client, "/deployments/summarize")
    assert html.count('class="failed"') == 2
    assert "exit code 137, killed by the kernel" in html
    lanes = {lane["replica_id"]: lane for lane in api(client, "/deployments/summarize")["lanes"]}
    assert [span["state"] for span in lanes["summarize-1"]["spans"]] == [
        "starting", "ready", "failed",
    ]  # fmt: skip


def test_the_contract_of_the_last_hour_is_counted_by_class_and_objective(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=200)
    slo = {
        (each["request_class"], each["objective"]): each
        for each in api(client, "/deployments/chat")["slo"]
    }
    ttft = slo["interactive", "ttft"]
    assert ttft["at_most_seconds"] == 0.3
    assert 0 < ttft["num_good"] < ttft["num_judged"]
    assert ttft["is_missed"] == (ttft["kept_share"] < ttft["promised_share"])
    assert slo["batch", "ttft"]["promised_share"] is None
    assert api(client, "/deployments/summarize")["slo"] == []


def test_an_unknown_deployment_or_instant_is_a_page_that_says_what_to_do(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=0)
    assert "There is no deployment nobody." in page(client, "/deployments/nobody", 404)
    assert "did not exist yet" in page(client, "/deployments/chat?at=30d", 404)
    assert "02:14" in page(client, "/deployments/chat?at=soon", 422)
    assert "15m, 1h, 6h, 1d, 7d" in page(client, "/deployments/chat?range=2y", 422)


def test_without_any_deployment_the_list_says_how_to_make_one(client: TestClient) -> None:
    assert "Nothing is deployed yet." in page(client, "/deployments")
    assert "pilothouse apply" in page(client, "/deployments")


def test_a_gateway_that_went_silent_takes_its_figures_with_it(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, NOW_NS, num_requests=0)
    clock = [NOW_NS]
    observed = ObservedState(clock=lambda: clock[0])
    observed.put_gateway(gateway_report(NOW_NS, "http://127.0.0.1:9"))
    app.state.observed = observed
    assert 'class="part' in page(client, "/deployments/chat")
    clock[0] += 60 * 10**9
    html = page(client, "/deployments/chat")
    assert "no gateway reports this replica's figures" in html
    assert 'class="part' not in html
