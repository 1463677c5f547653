"""Records in, requests and overview out, over the API."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api.changes import request_changes
from controlplane.api.live import ask_gateways
from controlplane.operator.observed import ObservedState
from controlplane.store.records import RecordBatch
from ops.sample_requests import Sample, answered, failed, inferred, preempted
from ops.seeded_console import close_app, create_app, every_kind, seed, store
from tests.databases import Databases

NOW_NS = time.time_ns()


@pytest.fixture
def app(databases: Databases, tmp_path: Path) -> Iterator[FastAPI]:
    made = create_app(tmp_path, databases.urls())
    yield made
    close_app(made)


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1")


def sample(sequence: int) -> Sample:
    return Sample(sequence=sequence, arrived_at_unix_ns=NOW_NS - sequence * 10**9)


def batch(*sequences: int) -> bytes:
    records = tuple(answered(sample(sequence)) for sequence in sequences)
    return msgspec.json.encode(RecordBatch(gateway_id="g", num_lost=0, records=records))


def get(client: TestClient, path: str, status: int = 200) -> Any:
    response = client.get(path)
    assert response.status_code == status, response.text
    return response.json()


def test_records_are_stored_once_and_listed_newest_first(client: TestClient) -> None:
    answer = client.post("/api/v1/records", content=batch(0, 1, 2))
    assert answer.json() == {"stored": 3, "duplicates": 0}
    assert client.post("/api/v1/records", content=batch(1)).json() == {
        "stored": 0,
        "duplicates": 1,
    }
    listed = get(client, "/api/v1/requests")
    assert [each["gateway_sequence"] for each in listed["requests"]] == [0, 1, 2]
    assert listed["next"] is None


def test_a_bad_batch_is_refused_whole_and_names_the_path(client: TestClient) -> None:
    body = batch(0, 1).replace(b'"gateway_sequence":1', b'"gateway_sequence":"1"')
    answer = client.post("/api/v1/records", content=body)
    assert answer.status_code == 422
    assert "records[1].gateway_sequence" in answer.json()["detail"]
    assert get(client, "/api/v1/requests")["requests"] == []


def test_only_new_records_wake_the_pages(app: FastAPI, client: TestClient) -> None:
    changes = request_changes(app.state)
    client.post("/api/v1/records", content=batch(0))
    assert changes.number == 1
    client.post("/api/v1/records", content=batch(0))
    assert changes.number == 1


def test_pages_follow_each_other_by_key(client: TestClient) -> None:
    client.post("/api/v1/records", content=batch(0, 1, 2))
    first = get(client, "/api/v1/requests?limit=2")
    second = get(client, f"/api/v1/requests?limit=2&after={first['next']}")
    assert [each["gateway_sequence"] for each in second["requests"]] == [2]
    assert second["next"] is None


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("limit=0", "limit"),
        ("limit=501", "limit"),
        ("limit=١", "limit"),
        ("since=yesterday", "since"),
        ("disposition=tired", "disposition"),
        ("in_contract=yes", "in_contract"),
        ("after=7", "after"),
        ("tennant=acme", "tennant"),
    ],
)
def test_a_wrong_parameter_is_named(client: TestClient, query: str, named: str) -> None:
    assert get(client, f"/api/v1/requests?{query}", 422)["detail"].startswith(f"{named}:")


def test_an_empty_parameter_means_any(app: FastAPI, client: TestClient) -> None:
    store(app, [answered(sample(0))])
    assert len(get(client, "/api/v1/requests?tenant=&since=&limit=")["requests"]) == 1


def test_since_takes_ages_and_times(app: FastAPI, client: TestClient) -> None:
    store(app, [answered(sample(5)), answered(sample(7200))])
    assert len(get(client, "/api/v1/requests?since=1h")["requests"]) == 1
    assert len(get(client, "/api/v1/requests?since=1970-01-01T00:00:00Z")["requests"]) == 2


def test_one_request_carries_its_whole_life(app: FastAPI, client: TestClient) -> None:
    record = answered(sample(0))
    store(app, [record])
    detail = get(client, f"/api/v1/requests/{record.request_id}")
    phases = {phase["name"]: phase for phase in detail["life"]["phases"]}
    assert list(phases) == ["queue", "prefill", "decode", "delivery", "cleanup"]
    assert phases["queue"]["end_seconds"] == pytest.approx(0.018)
    assert phases["prefill"]["note"] == "2 chunks, 64 of 128 tokens reused"
    assert detail["headline"]["text"] == "Answered whole, in contract."
    assert detail["record"]["request_id"] == record.request_id
    assert get(client, f"/api/v1/requests/{record.trace.trace_id}")["request"] == detail["request"]


def test_what_was_inferred_is_called_so(app: FastAPI, client: TestClient) -> None:
    record = inferred(sample(0))
    store(app, [record])
    life = get(client, f"/api/v1/requests/{record.request_id}")["life"]
    words = {phase["name"]: phase["observability"] for phase in life["phases"]}
    assert words["prefill"] == words["decode"] == "inferred"
    assert words["delivery"] == "observed"
    assert "cleanup" not in words
    assert any("unobservable" in remark for remark in life["remarks"])


def test_a_preemption_is_marked_inside_decode(app: FastAPI, client: TestClient) -> None:
    record = preempted(sample(0))
    store(app, [record])
    life = get(client, f"/api/v1/requests/{record.request_id}")["life"]
    decode = next(phase for phase in life["phases"] if phase["name"] == "decode")
    kinds = [mark["kind"] for mark in decode["marks"] if mark["kind"] != "tokens"]
    assert kinds == ["preempted", "resumed"]


def test_without_the_full_record_the_compact_row_says_what_it_can(
    app: FastAPI, client: TestClient
) -> None:
    records = [answered(sample(number)) for number in range(60)]
    store(app, records)
    details = [get(client, f"/api/v1/requests/{record.request_id}") for record in records]
    bare = next(detail for detail in details if detail["kept_because"] is None)
    assert bare["record"] is None
    assert bare["life"]["source"] == "compact row"
    assert {phase["observability"] for phase in bare["life"]["phases"]} == {"unknown"}
    assert len(bare["life"]["phases"]) == 5


def test_an_unknown_id_is_404_and_an_ambiguous_one_409(app: FastAPI, client: TestClient) -> None:
    store(app, every_kind(NOW_NS, 0) + [answered(sample(n)) for n in range(100, 140)])
    assert "in flight" in get(client, "/api/v1/requests/zzz", 404)["detail"]
    listed = get(client, "/api/v1/requests")["requests"]
    first_letters = [each["request_id"][0] for each in listed]
    shared = next(letter for letter in first_letters if first_letters.count(letter) > 1)
    assert "several" in get(client, f"/api/v1/requests/{shared}", 409)["detail"]


def test_the_overview_of_nothing_claims_nothing(client: TestClient) -> None:
    overview = get(client, "/api/v1/overview")
    assert (overview["deployments"], overview["troubles"]) == ([], [])
    assert overview["since_unix_ns"] is None


def test_the_overview_puts_the_worst_trouble_first(app: FastAPI, client: TestClient) -> None:
    seed(app, time.time_ns(), num_requests=100)
    overview = get(client, "/api/v1/overview")
    troubles = overview["troubles"]
    severities = [trouble["severity"] for trouble in troubles]
    assert severities == sorted(severities, key=["page", "ticket", "no_data"].index)
    assert severities[0] == "page"
    assert "summarize cannot answer: 0 of 1" in troubles[0]["what"]
    assert [t["severity"] for t in troubles if "promised" in t["what"]] == ["ticket"]
    # A page while callers are hurt, which the seeded traffic decides; a ticket otherwise.
    assert any("cache.thrash" in trouble["what"] for trouble in troubles)
    chat, summarize = overview["deployments"]
    assert (chat["num_ready_replicas"], chat["num_desired_replicas"]) == (3, 3)
    assert chat["offered_per_s"] > chat["goodput_per_s"] > 0
    assert 0 < chat["attainment"] < 1
    assert chat["kv_used_share"] == pytest.approx(70 * 5 / (3 * 512))
    assert summarize["ttft_p95_seconds"] is None
    assert overview["gateways"][0]["oldest_queued_seconds"] == 0.24
    assert summarize["kv_used_share"] is None


def test_a_gateway_that_answers_nobody_is_named_not_hidden(
    app: FastAPI, client: TestClient
) -> None:
    seed(app, time.time_ns(), num_requests=40)
    live = get(client, "/api/v1/requests/live")
    assert live["requests"] == []
    assert live["gateways"][0]["num_requests"] is None
    assert live["gateways"][0]["error"]


def test_no_gateway_at_all_is_no_error() -> None:
    live = asyncio.run(ask_gateways(ObservedState()))
    assert (live.gateways, live.requests) == ([], [])


def test_an_error_is_listed_with_its_reason(app: FastAPI, client: TestClient) -> None:
    store(app, [failed(sample(0))])
    listed = get(client, "/api/v1/requests?disposition=error")["requests"]
    assert listed[0]["reason"] == "replica chat-1 vanished: connection reset"


def test_a_body_that_is_no_json_is_refused(client: TestClient) -> None:
    answer = client.post("/api/v1/records", content=b"\x00")
    assert answer.status_code == 422
    assert "body" in answer.json()["detail"]
