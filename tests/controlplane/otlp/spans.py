"""Spans as clients and engines send them, made with the real messages."""

from collections.abc import Sequence
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import (
    AnyValue,
    InstrumentationScope,
    KeyValue,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from dataplane import names

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
SPAN_ID = "b7ad6b7169203331"
CLIENT_SPAN_ID = "00f067aa0ba902b7"
START_NS = 1_790_000_000 * 10**9
PROTOBUF = {"content-type": "application/x-protobuf"}


def span(
    name: str = "chat tiny",
    *,
    trace_id: str = TRACE_ID,
    span_id: str = CLIENT_SPAN_ID,
    parent: str = "",
    kind: Span.SpanKind.ValueType = Span.SPAN_KIND_CLIENT,
    start_ns: int = START_NS,
    seconds: float = 0.1,
    events: Sequence[tuple[str, float]] = (),
    is_error: bool = False,
    **attributes: Any,
) -> Span:
    """A span whose events are given in seconds since its start; `__` stands for a dot."""
    return Span(
        trace_id=bytes.fromhex(trace_id),
        span_id=bytes.fromhex(span_id),
        parent_span_id=bytes.fromhex(parent),
        name=name,
        kind=kind,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + round(seconds * 1e9),
        attributes=[attribute(key.replace("__", "."), value) for key, value in attributes.items()],
        events=[
            Span.Event(name=event, time_unix_nano=start_ns + round(at * 1e9))
            for event, at in events
        ],
        status=Status(code=Status.STATUS_CODE_ERROR if is_error else Status.STATUS_CODE_OK),
    )


def client_span(first: float = 0.051, final: float = 0.1, **fields: Any) -> Span:
    """One with our events."""
    return span(
        seconds=final + 0.001,
        events=[
            (names.EVENT_CLIENT_FIRST_CONTENT, first),
            (names.EVENT_CLIENT_FINAL_CONTENT, final),
        ],
        **fields,
    )


def vllm_span(**fields: Any) -> Span:
    """What vLLM sends when a request finishes: the attributes of its output processor."""
    said: dict[str, Any] = {
        "span_id": "c0ffee0000000001",
        "parent": SPAN_ID,
        "seconds": 0.0768,
        "gen_ai__latency__time_to_first_token": 0.0251,
        "gen_ai__latency__e2e": 0.0768,
        "gen_ai__latency__time_in_queue": 0.0009,
        "gen_ai__usage__prompt_tokens": 12,
        "gen_ai__usage__completion_tokens": 6,
        "gen_ai__latency__time_in_model_prefill": 0.0238,
        "gen_ai__latency__time_in_model_decode": 0.0511,
        "gen_ai__latency__time_in_model_inference": 0.0749,
        "gen_ai__request__id": "chatcmpl-8d7f",
        "gen_ai__request__top_p": 1.0,
        "gen_ai__request__max_tokens": 64,
        "gen_ai__request__temperature": 0.7,
        "gen_ai__request__n": 1,
    }
    said |= fields
    return span("llm_request", kind=Span.SPAN_KIND_SERVER, **said)


def attribute(key: str, value: Any) -> KeyValue:
    """One attribute of the type of `value`."""
    match value:
        case bool():
            return KeyValue(key=key, value=AnyValue(bool_value=value))
        case int():
            return KeyValue(key=key, value=AnyValue(int_value=value))
        case float():
            return KeyValue(key=key, value=AnyValue(double_value=value))
        case _:
            return KeyValue(key=key, value=AnyValue(string_value=str(value)))


def request_of(
    *spans: Span, service: str = "app", scope: str = "pilothouse.client"
) -> ExportTraceServiceRequest:
    """All of them in one request."""
    return ExportTraceServiceRequest(
        resource_spans=[
            ResourceSpans(
                resource=Resource(attributes=[attribute("service.name", service)]),
                scope_spans=[ScopeSpans(scope=InstrumentationScope(name=scope), spans=list(spans))],
            )
        ]
    )


def body_of(*spans: Span, service: str = "app", scope: str = "pilothouse.client") -> bytes:
    """As protobuf."""
    return request_of(*spans, service=service, scope=scope).SerializeToString()
