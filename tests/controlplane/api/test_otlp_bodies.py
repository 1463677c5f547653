"""Bodies that are no spans, or far too many: each is told what is wrong with it."""

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # it ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from controlplane.otlp.received import MAX_BODY_BYTES, MAX_DETAILS, MAX_SPANS
from ops.seeded_console import close_app, create_app
from tests.controlplane.otlp.spans import (
    PROTOBUF,
    body_of,
    client_span,
)
from tests.databases import SqliteDatabases

JSON = {"content-type": "application/json"}


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


def bomb() -> bytes:
    return gzip.compress(bytes(MAX_BODY_BYTES * 20))


def many_spans() -> bytes:
    """A million spans in two bytes each."""
    scope_spans = b"\x12\x00" * 10**6
    return _field(1, _field(2, scope_spans))


def many_resources() -> bytes:
    return b"\x0a\x00" * (2 * MAX_SPANS + 1)


def many_numbers() -> bytes:
    """Four million fields that nobody knows, which a gzip of 8 kB holds."""
    return b"\x08\x01" * (MAX_BODY_BYTES // 2)


def many_events() -> bytes:
    return _field(1, _field(2, _field(2, b"\x5a\x00" * 4 * 10**6)))


def many_resource_attributes() -> bytes:
    return _field(1, _field(1, b"\x0a\x00" * 4 * 10**6))


def many_scope_attributes() -> bytes:
    return _field(1, _field(2, _field(1, b"\x1a\x00" * 4 * 10**6)))


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


@pytest.mark.parametrize(
    ("make_body", "headers", "status", "says"),
    [
        (lambda: b"\xff\xff", PROTOBUF, 400, "no ExportTraceServiceRequest"),
        (lambda: b"\x0a\x05ab", PROTOBUF, 400, "no ExportTraceServiceRequest"),
        (lambda: body_of(client_span())[:-3], PROTOBUF, 400, "no ExportTraceServiceRequest"),
        (lambda: b"no gzip at all", PROTOBUF | {"content-encoding": "gzip"}, 400, "no gzip"),
        (
            lambda: gzip.compress(body_of(client_span()))[:-9],
            PROTOBUF | {"content-encoding": "gzip"},
            400,
            "cut short",
        ),
        (lambda: b"", PROTOBUF | {"content-encoding": "br"}, 415, "'br' is not read"),
        (bomb, PROTOBUF | {"content-encoding": "gzip"}, 413, "when inflated"),
        (lambda: bytes(MAX_BODY_BYTES + 1), PROTOBUF, 413, "send smaller batches"),
        (many_spans, PROTOBUF, 413, f"more than {MAX_SPANS} spans"),
        (many_resources, PROTOBUF, 413, f"more than {MAX_SPANS} spans"),
        (many_numbers, PROTOBUF, 413, f"more than {MAX_SPANS} spans"),
        (many_events, PROTOBUF, 413, f"more than {MAX_DETAILS} attributes and events"),
        (many_resource_attributes, PROTOBUF, 413, f"more than {MAX_DETAILS} attributes"),
        (many_scope_attributes, PROTOBUF, 413, f"more than {MAX_DETAILS} attributes"),
    ],
)
def test_a_bad_body_is_answered_with_a_status_that_says_why(
    client: TestClient,
    make_body: Callable[[], bytes],
    headers: dict[str, str],
    status: int,
    says: str,
) -> None:
    answer = client.post("/v1/traces", content=make_body(), headers=headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert says in Status.FromString(answer.content).message


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("{", 400, "no OTLP trace request"),
        ('{"resourceSpans": 7}', 400, "$.resourceSpans"),
        ("[" * 100_000, 400, "no OTLP trace request"),
        (
            '{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"soon"}]}]}]}',
            400,
            "startTimeUnixNano holds 'soon'",
        ),
        ('{"resourceSpans":[' + "{}," * 400_000 + "{}]}", 413, "objects"),
    ],
)
def test_bad_json_is_answered_in_json(
    client: TestClient, body: str, status: int, says: str
) -> None:
    answer = client.post("/v1/traces", content=body, headers=JSON)
    assert answer.status_code == status
    assert says in answer.json()["message"]


def test_another_content_type_is_told_what_to_send(client: TestClient) -> None:
    answer = client.post("/v1/traces", content=b"", headers={"content-type": "application/grpc"})
    assert answer.status_code == 415
    assert "http/protobuf" in answer.json()["message"]
