"""OTLP trace data as protobuf, decoded with the messages of `opentelemetry-proto`.

A message takes two bytes on the wire and more than a hundred in memory, so spans are counted
on the wire before anything is built.
"""

from collections.abc import Iterable, Iterator
from itertools import islice

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from controlplane.otlp.received import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    MAX_SPANS,
    NotDecodableError,
    ReceivedSpan,
    Scalar,
    SpanEvent,
    too_many_spans,
)

_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS = 1, 2, 2
_PATH = (_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS)
_BYTES = 2
_SERVICE_NAME = "service.name"


def decode_protobuf(data: bytes) -> list[ReceivedSpan]:
    """Every span of an ExportTraceServiceRequest. Raises NotDecodableError, TooLargeError."""
    budget = 2 * MAX_SPANS  # with the resources and scopes that hold them
    for _ in _messages(memoryview(data), _PATH):
        budget -= 1
        if budget < 0:
            raise too_many_spans()
    try:
        request = ExportTraceServiceRequest.FromString(data)
    except DecodeError as error:
        raise NotDecodableError(f"this is no ExportTraceServiceRequest: {error}") from error
    received = [
        _span(span, of_scope.scope.name, service)
        for of_resource in request.resource_spans
        for service in (str(_scalars(of_resource.resource.attributes).get(_SERVICE_NAME, "")),)
        for of_scope in of_resource.scope_spans
        for span in of_scope.spans
    ]
    if len(received) > MAX_SPANS:
        raise too_many_spans()
    return received


def _span(span: Span, scope: str, service: str) -> ReceivedSpan:
    return ReceivedSpan(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_span_id=span.parent_span_id.hex(),
        kind=span.kind,
        name=span.name,
        scope=scope,
        service=service,
        start_unix_ns=span.start_time_unix_nano,
        end_unix_ns=span.end_time_unix_nano,
        is_error=span.status.code == Status.StatusCode.STATUS_CODE_ERROR,
        attributes=_scalars(span.attributes),
        events=tuple(
            SpanEvent(event.name, event.time_unix_nano) for event in islice(span.events, MAX_EVENTS)
        ),
    )


def _scalars(attributes: Iterable[KeyValue]) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for attribute in islice(attributes, MAX_ATTRIBUTES):
        value = _scalar(attribute.value)
        if value is not None:
            found.setdefault(attribute.key, value)
    return found


def _scalar(value: AnyValue) -> Scalar | None:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
        case "int_value":
            return value.int_value
        case "double_value":
            return value.double_value
        case _:
            return None


def _messages(data: memoryview, path: tuple[int, ...]) -> Iterator[None]:
    """One None for each message on `path`, those that hold others included."""
    at, wanted = 0, path[0] << 3 | _BYTES
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 != _BYTES:
            at = _after(data, at, tag & 7)
            continue
        size, at = _varint(data, at)
        if tag == wanted:
            yield None
            if len(path) > 1:
                yield from _messages(data[at : at + size], path[1:])
        at += size


def _after(data: memoryview, at: int, wire_type: int) -> int:
    """Where a field that holds no message ends."""
    match wire_type:
        case 0:
            return _varint(data, at)[1]
        case 1:
            return at + 8
        case 5:
            return at + 4
        case _:
            raise NotDecodableError(f"this is no ExportTraceServiceRequest: wire type {wire_type}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(data):
            raise NotDecodableError("this is no ExportTraceServiceRequest: it is cut short")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, at
    raise NotDecodableError("this is no ExportTraceServiceRequest: a number is too long")
