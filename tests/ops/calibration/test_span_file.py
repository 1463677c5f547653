import gzip
import json
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from controlplane.cli.span_sources import read_span_files
from ops.calibration.span_file import keeping_spans


def _export(url: str, *names: str) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "vllm"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=url)))
    tracer = provider.get_tracer("vllm.llm_engine")
    for number, name in enumerate(names):
        tracer.start_span(name, attributes={"gen_ai.usage.prompt_tokens": number}).end()
    provider.shutdown()


def test_what_a_real_exporter_sends_is_read_by_the_command_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    with keeping_spans(path) as url:
        _export(url, "llm_request", "another")
    spans = read_span_files([str(path)])
    assert [(span.name, span.service) for span in spans] == [
        ("llm_request", "vllm"),
        ("another", "vllm"),
    ]
    assert [span.attributes for span in spans] == [
        {"gen_ai.usage.prompt_tokens": 0},
        {"gen_ai.usage.prompt_tokens": 1},
    ]
    [written] = json.loads(path.read_text().splitlines()[0])["resourceSpans"][0]["scopeSpans"]
    assert len(bytes.fromhex(written["spans"][0]["traceId"])) == 16


def test_a_file_that_is_there_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "traces.json"
    for name in ("first", "second"):
        with keeping_spans(path) as url:
            _export(url, name)
    assert [span.name for span in read_span_files([str(path)])] == ["first", "second"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {"content-type": "application/json"}, 415),
        (b"\xff\xff", {"content-type": "application/x-protobuf"}, 400),
        (b"no", {"content-type": "application/x-protobuf", "content-encoding": "gzip"}, 400),
        (
            gzip.compress(b"")[:10] + b"no deflate",
            {"content-type": "application/x-protobuf", "content-encoding": "gzip"},
            400,
        ),
        (
            gzip.compress(b""),
            {"content-type": "application/x-protobuf", "content-encoding": "gzip"},
            200,
        ),
    ],
    ids=["json", "garbage", "no gzip", "broken gzip", "nothing"],
)
def test_what_is_no_trace_data_is_refused_and_not_kept(
    tmp_path: Path, body: bytes, headers: dict[str, str], status: int
) -> None:
    with keeping_spans(tmp_path / "traces.json") as url:
        answer = httpx.post(url, content=body, headers=headers)
    assert answer.status_code == status
    assert read_span_files([str(tmp_path / "traces.json")]) == []
