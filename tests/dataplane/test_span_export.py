"""Spans on their way to a backend: what arrives, and what a backend that fails costs."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter as OtlpExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from dataplane import names
from dataplane.telemetry import (
    SpanExporter,
    child_span_id,
    start_trace,
)
from tests.dataplane.golden_request import (
    ARRIVED_AT_UNIX_NS,
    TRACE,
    golden_case,
    golden_record,
)
from tests.dataplane.otlp_receiver import Received, grpc_receiver, http_receiver

_PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for key in list(os.environ):
        if key.startswith("OTEL_"):
            monkeypatch.delenv(key)
    return monkeypatch


_RECEIVERS: dict[str, Callable[[], contextlib.AbstractContextManager[Received]]] = {
    "grpc": grpc_receiver,
    "http/protobuf": http_receiver,
}


@pytest.mark.parametrize("protocol", _RECEIVERS)
def test_the_six_spans_arrive_over(protocol: str, clean_environment: pytest.MonkeyPatch) -> None:
    with _RECEIVERS[protocol]() as received:
        clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.endpoint)
        clean_environment.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        exporter = SpanExporter.from_env("pilothouse-gateway", "gateway-0-a")
        exporter.export(golden_record(trace=start_trace(_PARENT, None)))
        asyncio.run(exporter.close(5))
    spans = received.spans()
    assert tuple(span.name for span in spans) == names.SPAN_NAMES
    assert exporter.num_dropped == 0
    assert {span.trace_id.hex() for span in spans} == {"4bf92f3577b34da6a3ce929d0e0e4736"}
    assert spans[0].parent_span_id.hex() == "00f067aa0ba902b7"
    assert {span.parent_span_id for span in spans[1:]} == {spans[0].span_id}
    golden = golden_case()["without_client_telemetry"]["spans_ms"]
    for span in spans:
        times = (span.start_time_unix_nano, span.end_time_unix_nano)
        assert [round((t - ARRIVED_AT_UNIX_NS) / 1e6) for t in times] == golden[span.name]
    resource = {
        attribute.key: attribute.value.string_value
        for attribute in received.requests[0].resource_spans[0].resource.attributes
    }
    assert resource["service.name"] == "pilothouse-gateway"
    assert resource["service.instance.id"] == "gateway-0-a"


def test_spans_leave_by_themselves_soon_after(clean_environment: pytest.MonkeyPatch) -> None:
    with http_receiver() as received:
        endpoint = f"{received.endpoint}/v1/traces"
        clean_environment.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", endpoint)
        exporter = SpanExporter.from_env("gateway", "a")
        exporter.export(golden_record())
        assert len(received.wait_for_spans(6)) == 6
        asyncio.run(exporter.close(5))


def test_without_an_endpoint_nothing_runs_and_nothing_counts_as_dropped(
    clean_environment: pytest.MonkeyPatch,
) -> None:
    exporter = SpanExporter.from_env("gateway", "a")
    exporter.export(golden_record())
    asyncio.run(exporter.close(1))
    assert exporter.num_dropped == 0
    assert exporter._thread is None


def test_a_protocol_nobody_speaks_is_refused_with_the_known_ones(
    clean_environment: pytest.MonkeyPatch,
) -> None:
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    clean_environment.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
    with pytest.raises(ValueError, match=r"'http/json' is not spoken here: use grpc or http"):
        SpanExporter.from_env("gateway", "a")


def test_a_trace_that_is_not_sampled_is_not_exported(
    clean_environment: pytest.MonkeyPatch,
) -> None:
    with http_receiver() as received:
        clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.endpoint)
        exporter = SpanExporter.from_env("gateway", "a")
        exporter.export(golden_record(trace=start_trace(f"{_PARENT[:-2]}00", None)))
        asyncio.run(exporter.close(5))
    assert received.spans() == []
    assert exporter.num_dropped == 0


def test_what_a_backend_refuses_is_dropped_and_counted(
    clean_environment: pytest.MonkeyPatch,
) -> None:
    with http_receiver(status=400) as received:
        clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.endpoint)
        exporter = SpanExporter.from_env("gateway", "a")
        exporter.export(golden_record())
        asyncio.run(exporter.close(5))
    assert exporter.num_dropped == 6


def test_an_exporter_that_raises_costs_its_batch_and_not_what_follows() -> None:
    class FailsOnce(OtlpExporter):
        def __init__(self) -> None:
            self.taken: list[ReadableSpan] = []
            self.num_calls = 0

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            self.num_calls += 1
            if self.num_calls == 1:
                raise RuntimeError("it broke")
            self.taken += spans
            return SpanExportResult.SUCCESS

    backend = FailsOnce()
    exporter = SpanExporter(backend, Resource.get_empty())
    exporter.export(golden_record())
    deadline = time.monotonic() + 5
    while not backend.num_calls and time.monotonic() < deadline:
        time.sleep(0.01)
    exporter.export(golden_record())
    asyncio.run(exporter.close(5))
    assert len(backend.taken) == 6
    assert exporter.num_dropped == 6


def test_a_backend_that_hangs_costs_the_caller_nothing_and_the_surplus_is_counted(
    clean_environment: pytest.MonkeyPatch,
) -> None:
    num_records, max_queued = 400, 128
    with http_receiver(delay_seconds=0.5) as received:
        clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.endpoint)
        exporter = SpanExporter.from_env("gateway", "a", max_queued_records=max_queued)
        record = golden_record()
        began = time.monotonic()
        for _ in range(num_records):
            exporter.export(record)
        assert time.monotonic() - began < 0.4, "export waited for the backend"
        asyncio.run(exporter.close(5))
    num_arrived = len(received.spans())
    assert num_arrived >= 6 * max_queued
    assert num_arrived + exporter.num_dropped == 6 * num_records


def test_a_backend_that_is_away_does_not_hold_up_the_end(
    clean_environment: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        exporter = SpanExporter.from_env("gateway", "a")
        exporter.export(golden_record())
        began = time.monotonic()
        asyncio.run(exporter.close(0.3))
        assert time.monotonic() - began < 3
    assert exporter.num_dropped == 6


# --- a backend nobody here wrote ---------------------------------------------------------

_PEERS = Path(__file__).parents[2] / ".venv-peers"


@pytest.fixture
def trace_view(tmp_path: Path) -> Iterator[str]:
    """The address of a running trace-view."""
    binary = _PEERS / "bin" / "tv"
    if not binary.exists():
        pytest.skip(f"{binary} is missing: run ops/setup-test.sh, which installs trace-view")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [binary, "--port", str(port), "--db", str(tmp_path / "traces.db"), "serve"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _get(url: str, timeout_seconds: float = 10.0) -> Any:
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:
                found = json.load(answer)
        except OSError:
            found = None
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def test_a_foreign_backend_shows_the_six_spans(
    trace_view: str, clean_environment: pytest.MonkeyPatch
) -> None:
    clean_environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", trace_view)
    with contextlib.closing(_listening(trace_view)):
        exporter = SpanExporter.from_env("pilothouse-gateway", "gateway-0-a")
    record = golden_record()
    exporter.export(record)
    asyncio.run(exporter.close(10))
    assert exporter.num_dropped == 0
    # It groups by service.instance.id, keeps ids, parents and times of spans, not their names,
    # and lists span events beside them.
    listed = _get(f"{trace_view}/api/sessions/gateway-0-a/spans")
    shown = {span["id"]: span for span in listed if "-event-" not in span["id"]}
    golden = golden_case()["without_client_telemetry"]["spans_ms"]
    id_by_name = {
        name: TRACE.span_id if name == names.SPAN_REQUEST else child_span_id(TRACE, name)
        for name in names.SPAN_NAMES
    }
    assert set(shown) == set(id_by_name.values())
    for name, span_id in id_by_name.items():
        span = shown[span_id]
        times = [
            round((span[key] - ARRIVED_AT_UNIX_NS) / 1e6) for key in ("start_time", "end_time")
        ]
        assert times == golden[name], name
        assert span["trace_id"] == TRACE.trace_id
        assert span.get("parent_span_id") == (None if name == "request" else TRACE.span_id)
    request = shown[TRACE.span_id]
    assert (request["input_tokens"], request["output_tokens"]) == (12, 6)
    assert (request["model"], request["finish_reason"]) == ("tiny", "stop")


def _listening(address: str) -> socket.socket:
    """A connection to `address`, once somebody listens there."""
    host, _, port = address.removeprefix("http://").partition(":")
    deadline = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection((host, int(port)), timeout=1)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
