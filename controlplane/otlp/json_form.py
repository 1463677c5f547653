"""OTLP trace data as JSON: protobuf's JSON mapping, but ids in hex and enums as numbers.

Only the fields that are read have a place here; a decoder must pass over unknown ones.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import msgspec

from controlplane.otlp.received import (
    MAX_ATTRIBUTES,
    MAX_EVENTS,
    MAX_SPANS,
    NotDecodableError,
    ReceivedSpan,
    Scalar,
    SpanEvent,
    TooLargeError,
    too_many_spans,
)

_MAX_OBJECTS = 300_000
"""An object takes three bytes of text and hundreds in memory."""
_STATUS_ERROR = (2, "STATUS_CODE_ERROR")
_KINDS = {
    "SPAN_KIND_INTERNAL": 1,
    "SPAN_KIND_SERVER": 2,
    "SPAN_KIND_CLIENT": 3,
    "SPAN_KIND_PRODUCER": 4,
    "SPAN_KIND_CONSUMER": 5,
}
_SERVICE_NAME = "service.name"


class _Document(msgspec.Struct, rename="camel"):
    """What all of them have in common."""


class _Value(_Document):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None


class _Attribute(_Document):
    key: str = ""
    value: _Value | None = None


class _Event(_Document):
    name: str = ""
    time_unix_nano: int | str = 0


class _Status(_Document):
    code: int | str = 0


class _Span(_Document):
    trace_id: str = ""
    span_id: str = ""
    parent_span_id: str = ""
    name: str = ""
    kind: int | str = 0
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_Attribute] = []
    events: list[_Event] = []
    status: _Status | None = None


class _Scope(_Document):
    name: str = ""


class _ScopeSpans(_Document):
    scope: _Scope | None = None
    spans: list[_Span] = []


class _Resource(_Document):
    attributes: list[_Attribute] = []


class _ResourceSpans(_Document):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] = []


class _Request(_Document):
    resource_spans: list[_ResourceSpans] = []


_DECODER = msgspec.json.Decoder(_Request)


def decode_json(data: bytes) -> list[ReceivedSpan]:
    """Every span of a request. Raises NotDecodableError, naming the path, and TooLargeError."""
    if data.count(b"{") > _MAX_OBJECTS:
        raise TooLargeError(f"more than {_MAX_OBJECTS} objects; send smaller batches")
    try:
        request = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotDecodableError(f"this is no OTLP trace request: {error}") from error
    received = [
        _span(span, scope.scope.name if scope.scope else "", _service(of_resource))
        for of_resource in request.resource_spans
        for scope in of_resource.scope_spans
        for span in islice(scope.spans, MAX_SPANS + 1)
    ]
    if len(received) > MAX_SPANS:
        raise too_many_spans()
    return received


def _service(of_resource: _ResourceSpans) -> str:
    attributes = of_resource.resource.attributes if of_resource.resource else []
    return str(_scalars(attributes).get(_SERVICE_NAME, ""))


def _span(span: _Span, scope: str, service: str) -> ReceivedSpan:
    kind = _KINDS.get(span.kind, 0) if isinstance(span.kind, str) else span.kind
    return ReceivedSpan(
        trace_id=span.trace_id.lower(),
        span_id=span.span_id.lower(),
        parent_span_id=span.parent_span_id.lower(),
        kind=kind,
        name=span.name,
        scope=scope,
        service=service,
        start_unix_ns=_integer(span.start_time_unix_nano, "startTimeUnixNano"),
        end_unix_ns=_integer(span.end_time_unix_nano, "endTimeUnixNano"),
        is_error=span.status is not None and span.status.code in _STATUS_ERROR,
        attributes=_scalars(span.attributes),
        events=tuple(
            SpanEvent(event.name, _integer(event.time_unix_nano, "timeUnixNano"))
            for event in islice(span.events, MAX_EVENTS)
        ),
    )


def _scalars(attributes: Iterable[_Attribute]) -> dict[str, Scalar]:
    found: dict[str, Scalar] = {}
    for attribute in islice(attributes, MAX_ATTRIBUTES):
        value = None if attribute.value is None else _scalar(attribute.value, attribute.key)
        if value is not None:
            found.setdefault(attribute.key, value)
    return found


def _scalar(value: _Value, key: str) -> Scalar | None:
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return _integer(value.int_value, key)
    if value.double_value is not None:
        return _float(value.double_value, key)
    return None


def _integer(value: int | str, where: str) -> int:
    """64-bit numbers are text in JSON, because many readers have only floats."""
    return int(_number(int, value, where))


def _float(value: float | str, where: str) -> float:
    """NaN and the infinities are text."""
    return float(_number(float, value, where))


def _number(kind: Any, value: Any, where: str) -> Any:
    try:
        if isinstance(value, str) and len(value) > 32:
            raise ValueError(value)
        return kind(value)
    except ValueError as error:
        raise NotDecodableError(
            f"this is no OTLP trace request: {where[:64]} holds {str(value)[:40]!r}, no number"
        ) from error
