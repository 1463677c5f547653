"""OTLP trace data as protobuf, decoded with the messages of `opentelemetry-proto`.

A message takes two bytes on the wire and more than a hundred in memory, so fields are counted
on the wire before anything is built: a small gzip can hold millions of them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from controlplane.otlp.received import (
    MAX_ATTRIBUTES,
    MAX_DETAILS,
    MAX_EVENTS,
    MAX_SPANS,
    NotDecodableError,
    ReceivedSpan,
    Scalar,
    SpanEvent,
    too_many_details,
    too_many_spans,
)

_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS = 1, 2, 2
_PATH = (_RESOURCE_SPANS, _SCOPE_SPANS, _SPANS)
_BYTES = 2
_DESCRIPTION = 1 << 3 | _BYTES
"""The resource of resource spans, the scope of scope spans."""
_SERVICE_NAME = "service.name"


def decode_protobuf(data: bytes) -> list[ReceivedSpan]:
    """Every span of an ExportTraceServiceRequest. Raises NotDecodableError, TooLargeError."""
    _count_fields(memoryview(data), _PATH, _Budget())
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


@dataclass(slots=True)
class _Budget:
    """How many fields there may still be."""

    messages: int = 2 * MAX_SPANS
    """Spans, with the resources and scopes that hold them."""
    fields: int = 5 * MAX_SPANS
    """Those messages, with what stands beside them."""
    inner_fields: int = MAX_DETAILS + 14 * MAX_SPANS
    """Of spans, resources and scopes: a span has up to 14 beside its attributes and events."""


def _count_fields(data: memoryview, path: tuple[int, ...], budget: _Budget) -> None:
    """Count the fields of the messages on `path`, the last of which are spans.

    Raises TooLargeError when there are more than `budget` allows.
    """
    at, wanted = 0, path[0] << 3 | _BYTES
    while at < len(data):
        tag, at = _varint(data, at)
        budget.fields -= 1
        budget.messages -= tag == wanted
        if budget.fields < 0 or budget.messages < 0:
            raise too_many_spans()
        if tag & 7 != _BYTES:
            at = _after(data, at, tag & 7)
            continue
        size, at = _varint(data, at)
        if tag == wanted and len(path) > 1:
            _count_fields(data[at : at + size], path[1:], budget)
        elif tag == wanted or (tag == _DESCRIPTION and path != _PATH):
            budget.inner_fields -= _count_inner(data[at : at + size], budget.inner_fields)
            if budget.inner_fields < 0:
                raise too_many_details()
        at += size


def _count_inner(data: memoryview, limit: int) -> int:
    """Fields of one message, or a number above `limit`."""
    at = number = 0
    end = len(data)
    while at < end and number <= limit:
        number += 1
        tag, at = _varint(data, at)
        if tag & 7 == _BYTES:
            size, at = _varint(data, at)
            at += size
        else:
            at = _after(data, at, tag & 7)
    return number


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
    if at < len(data) and data[at] < 0x80:  # as nearly all are
        return data[at], at + 1
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
