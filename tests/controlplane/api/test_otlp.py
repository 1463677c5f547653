"""The OTLP receiver over HTTP: what it takes, what it refuses and how it says so."""

import base64
import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from google.protobuf.json_format import MessageToDict
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # it ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from sqlalchemy import text

from controlplane.api.otlp import MAX_IN_PROGRESS, SpanIntake
from controlplane.api.span_counters import span_counters
from controlplane.otlp.matching import MAX_ENGINE_REPORTS
from controlplane.otlp.received import MAX_SPANS
from controlplane.store.records import RecordBatch
from dataplane import names
from dataplane.access import Role
from ops.seeded_console import close_app, create_app, store
from tests.controlplane.guarded_plane import guarded_plane
from tests.controlplane.otlp.spans import (
    PROTOBUF,
    body_of,
    client_span,
    request_of,
    span,
    vllm_span,
)
from tests.databases import SqliteDatabases
from tests.dataplane.golden_request import golden_case, golden_record

JSON = {"content-type": "application/json"}


TENANTS = """
apiVersion: pilothouse/v1
kind: Tenant
metadata: {name: acme}
spec: {tier: gold}
---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {name: other}
spec: {tier: gold}
"""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    made = create_app(tmp_path, SqliteDatabases(tmp_path).urls())
    yield made
    close_app(made)


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, base_url="http://127.0.0.1")


def send(client: TestClient, *spans: Span, **of_resource: str) -> None:
    answer = client.post("/v1/traces", content=body_of(*spans, **of_resource), headers=PROTOBUF)
    assert answer.status_code == 200, answer.content
    assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()


def golden_detail(client: TestClient) -> Any:
    return client.get("/api/v1/requests/request-1").json()


def test_a_client_span_shows_the_client_beside_server_and_engine(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    send(client, client_span(0.051, 0.1))
    detail = golden_detail(client)
    assert detail["client"]["first_content_seconds"] == pytest.approx(0.051)
    assert detail["client"]["final_content_observability"] == "observed"
    shown = {each["boundary"]: each for each in detail["boundaries"]}
    assert shown["engine"]["ttft_seconds"] == pytest.approx(0.043)
    assert shown["server"]["ttft_seconds"] == pytest.approx(0.044)
    assert shown["client"]["ttft_seconds"] == pytest.approx(0.051)
    assert shown["client"]["e2e_seconds"] == pytest.approx(0.1)
    assert shown["client"]["tpot_seconds"] == pytest.approx((0.1 - 0.051) / 5)


def test_full_records_hold_what_the_client_reported_as_each_of_them_does_alone(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    send(client, client_span(0.051, 0.1))
    [record] = client.get("/api/v1/records").json()["records"]
    assert record["client"] is not None
    assert record == golden_detail(client)["record"]


def test_the_clients_lane_is_inferred_and_its_clock_is_never_put_on_the_servers(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    send(client, client_span(0.051, 0.1, start_ns=7 * 10**9))  # its clock is decades off
    life = golden_detail(client)["life"]
    phases = {phase["name"]: phase for phase in life["phases"]}
    assert "first_content_transit" not in phases
    assert phases["delivery"]["end_seconds"] == pytest.approx(0.097), "the server's own"
    lane = phases["client"]
    assert (lane["start_seconds"], lane["observability"]) == (0.0, "inferred")
    assert lane["end_seconds"] == pytest.approx(0.1)
    assert "own clock" in lane["note"]
    assert any("by assumption" in remark for remark in life["remarks"])


def test_a_declared_clock_error_gives_the_golden_timeline(app: FastAPI, client: TestClient) -> None:
    store(app, [golden_record()])
    send(client, client_span(0.051, 0.1, pilothouse__client__clock_error_seconds=0.0))
    phases = {phase["name"]: phase for phase in golden_detail(client)["life"]["phases"]}
    for name, golden in golden_case()["timeline_ms"].items():
        if name != "request":  # the page draws the phases inside it
            measured = [phases[name]["start_seconds"] * 1000, phases[name]["end_seconds"] * 1000]
            assert measured == pytest.approx([golden["start"], golden["end"]]), name
            assert phases[name]["boundary"] == golden["boundary"]


def test_without_a_report_the_client_is_said_not_to_have_reported(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    detail = golden_detail(client)
    assert (detail["client"], detail["engine_spans"]) == (None, [])
    assert [each["known"] for each in detail["boundaries"]] == [
        "observed",
        "observed",
        "not reported",
    ]


def test_a_span_that_comes_before_its_record_waits_for_it(app: FastAPI, client: TestClient) -> None:
    send(client, client_span())
    batch = RecordBatch(gateway_id="g", num_lost=0, records=(golden_record(),))
    assert client.post("/api/v1/records", content=msgspec.json.encode(batch)).status_code == 200
    assert golden_detail(client)["client"]["final_content_seconds"] == pytest.approx(0.1)
    joined = span_counters(app.state).total(names.CONTROLPLANE_SPANS_JOINED_TOTAL, "client")
    assert joined == 1


def test_a_span_sent_twice_is_taken_once(app: FastAPI, client: TestClient) -> None:
    store(app, [golden_record()])
    send(client, client_span())
    send(client, client_span(), client_span())
    counters = span_counters(app.state)
    assert counters.total(names.CONTROLPLANE_SPANS_TAKEN_TOTAL, "client") == 1
    assert counters.total(names.CONTROLPLANE_SPANS_IGNORED_TOTAL, "duplicate") == 2


def test_json_tells_the_same_as_protobuf(app: FastAPI, client: TestClient) -> None:
    store(app, [golden_record()])
    made = MessageToDict(request_of(client_span(), vllm_span()), use_integers_for_enums=True)
    for each in made["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in each:  # protobuf's own JSON has base64 there, OTLP's has hex
                each[name] = base64.b64decode(each[name]).hex()
    made["resourceSpans"][0]["unknownField"] = [{"a": 1}]
    answer = client.post("/v1/traces", content=json.dumps(made), headers=JSON)
    assert (answer.status_code, answer.json()) == (200, {})
    detail = golden_detail(client)
    assert detail["client"]["first_content_seconds"] == pytest.approx(0.051)
    assert detail["engine_spans"][0]["attributes"]["gen_ai.latency.time_in_queue"] == 0.0009


def test_an_engines_span_is_shown_with_its_source_and_judges_nothing(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    before = golden_detail(client)
    send(client, vllm_span(), service="vllm", scope="vllm.llm_engine")
    after = golden_detail(client)
    [shown] = after["engine_spans"]
    assert (shown["source"], shown["name"]) == ("vllm", "llm_request")
    assert shown["attributes"]["gen_ai.latency.time_in_model_prefill"] == 0.0238
    assert after["boundaries"] == before["boundaries"]


def test_gzip_is_read(app: FastAPI, client: TestClient) -> None:
    store(app, [golden_record()])
    headers = PROTOBUF | {"content-encoding": "gzip"}
    answer = client.post(
        "/v1/traces", content=gzip.compress(body_of(client_span())), headers=headers
    )
    assert answer.status_code == 200
    assert golden_detail(client)["client"] is not None


def test_spans_that_are_not_ours_are_passed_over_by_reason(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    send(client, client_span(span_id="00000000000000aa"), scope="pilothouse")
    send(
        client,
        span("GET /cart", kind=Span.SPAN_KIND_SERVER, span_id="00000000000000ab"),
        span("GET", span_id="00000000000000ac", http__request__method="GET"),
        span("embeddings", span_id="00000000000000ad", gen_ai__operation__name="embeddings"),
    )
    counters = span_counters(app.state)
    reasons = {
        reason: counters.total(names.CONTROLPLANE_SPANS_IGNORED_TOTAL, reason)
        for reason in ("own", "foreign", "other_operation")
    }
    assert reasons == {"own": 1, "foreign": 2, "other_operation": 1}
    assert golden_detail(client)["client"] is None


def test_broken_spans_are_named_in_a_partial_success_and_the_others_taken(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    body = body_of(
        client_span(trace_id="0" * 32),
        client_span(span_id="0" * 16),
        client_span(span_id="ab"),
        client_span(span_id="00000000000000ab", start_ns=2**63),
        span(span_id="00000000000000ac", seconds=-1.0, gen_ai__operation__name="chat"),
        client_span(0.2, 0.1, span_id="00000000000000ad"),
        span(span_id="00000000000000ae", seconds=9e8, gen_ai__operation__name="chat"),
        client_span(),
    )
    answer = client.post("/v1/traces", content=body, headers=PROTOBUF)
    assert answer.status_code == 200
    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_spans == 7
    assert "3 spans without valid trace and span ids" in partial.error_message
    assert "4 spans whose times contradict" in partial.error_message
    assert golden_detail(client)["client"]["first_content_seconds"] == pytest.approx(0.051)


def test_attribute_bombs_and_markup_change_nothing_but_what_is_shown(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    bombs: dict[str, Any] = {f"key{number}": "x" * 100 for number in range(2000)}
    hostile = client_span(gen_ai__request__model="<script>\x00\x1b[31m" + "m" * 10**5, **bombs)
    send(client, hostile, service="<b>\x07app")
    shown = golden_detail(client)["client"]
    assert shown["source"] == "<b>\ufffdapp"
    model = shown["attributes"]["gen_ai.request.model"]
    assert model.startswith("<script>\ufffd\ufffd[31m")
    assert len(model) == 200
    assert set(shown["attributes"]) == {"gen_ai.request.model"}
    page = client.get("/requests/request-1").text
    assert "<script>\ufffd" not in page


def test_too_many_at_once_are_asked_to_come_again(app: FastAPI, client: TestClient) -> None:
    app.state.span_intake = SpanIntake(num_in_progress=MAX_IN_PROGRESS)
    answer = client.post("/v1/traces", content=body_of(client_span()), headers=PROTOBUF)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "again later" in Status.FromString(answer.content).message


def test_a_database_that_fails_is_a_reason_to_send_again(app: FastAPI, client: TestClient) -> None:
    with app.state.request_db.session() as session:
        session.execute(text("ALTER TABLE span_reports RENAME TO elsewhere"))
    answer = client.post("/v1/traces", content=body_of(client_span()), headers=PROTOBUF)
    assert answer.status_code == 503
    with app.state.request_db.session() as session:
        session.execute(text("ALTER TABLE elsewhere RENAME TO span_reports"))
    send(client, client_span())


def test_ten_thousand_spans_at_once_are_taken(app: FastAPI, client: TestClient) -> None:
    store(app, [golden_record(arrived_at_unix_ns=time.time_ns())])
    send(client, *(client_span(span_id=f"{number + 1:016x}") for number in range(MAX_SPANS)))
    taken = span_counters(app.state).total(names.CONTROLPLANE_SPANS_TAKEN_TOTAL, "client")
    assert taken == MAX_SPANS
    assert golden_detail(client)["client"] is None, "nothing tells which of them is the caller's"


def test_the_page_shows_the_clients_lane_the_three_boundaries_and_the_engines_span(
    app: FastAPI, client: TestClient
) -> None:
    store(app, [golden_record()])
    silent = client.get("/requests/request-1").text
    assert "not reported" in silent
    send(
        client,
        client_span(),
        vllm_span(gen_ai__latency__e2e="soon", gen_ai__request__model="<b>m</b>"),
        service="traced",
    )
    page = client.get("/requests/request-1").text
    assert 'class="bar p-client inferred"' in page
    assert "told by traced" in page
    assert "latency.time_in_queue" in page
    assert "latency.e2e" not in page, "a latency is a number"
    assert "<b>m" not in page


def test_a_key_of_another_tenant_tells_nothing_and_who_only_reads_may_not_report(
    tmp_path: Path,
) -> None:
    with guarded_plane(tmp_path) as plane:
        store(plane.app, [golden_record()])
        admin = plane.bearing(plane.key(Role.ADMIN))
        applied = admin.post("/api/v1/apply", json={"files": [{"name": "t", "text": TENANTS}]})
        assert applied.status_code == 200, applied.text

        def status_of(role: Role, tenant: str | None, made: Span) -> int:
            caller = plane.bearing(plane.key(role, tenant))
            answer = caller.post("/v1/traces", content=body_of(made), headers=PROTOBUF)
            return answer.status_code

        assert status_of(Role.VIEWER, None, client_span()) == 403
        assert plane.http.post("/v1/traces", headers=PROTOBUF).status_code == 401
        assert status_of(Role.CLIENT, "other", client_span(0.2, 0.3)) == 200
        assert golden_detail(admin)["client"] is None
        assert status_of(Role.CLIENT, "acme", client_span()) == 200
        assert golden_detail(admin)["client"]["first_content_seconds"] == pytest.approx(0.051)
        assert status_of(Role.GATEWAY, None, vllm_span()) == 200
        assert len(golden_detail(admin)["engine_spans"]) == 1


def test_forged_engine_spans_of_a_client_take_no_real_ones_place(tmp_path: Path) -> None:
    with guarded_plane(tmp_path) as plane:
        store(plane.app, [golden_record()])
        admin = plane.bearing(plane.key(Role.ADMIN))
        applied = admin.post("/api/v1/apply", json={"files": [{"name": "t", "text": TENANTS}]})
        assert applied.status_code == 200, applied.text
        forged = [vllm_span(span_id=f"{number + 1:016x}") for number in range(MAX_ENGINE_REPORTS)]
        client = plane.bearing(plane.key(Role.CLIENT, "acme"))
        gateway = plane.bearing(plane.key(Role.GATEWAY))
        client.post("/v1/traces", content=body_of(*forged), headers=PROTOBUF)
        gateway.post("/v1/traces", content=body_of(vllm_span()), headers=PROTOBUF)
        assert len(golden_detail(admin)["engine_spans"]) == 1
        ignored = names.CONTROLPLANE_SPANS_IGNORED_TOTAL
        assert span_counters(plane.app.state).total(ignored, "not_its_side") == len(forged)
