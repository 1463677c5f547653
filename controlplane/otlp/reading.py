"""From received spans to reports: which spans are taken, which are passed over and why. Pure.

Taken are a client's span of one model call, and an engine's span of one request. A client's
times are durations on its own clock: its send is the start of its span, and the events
`pilothouse.client.first_content`, `pilothouse.client.first_answer` (of a reasoning model) and
`pilothouse.client.final_content` say the rest. Where a span comes from another instrumentation,
what stands nearest is used and called inferred.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.otlp.client_times import BadTimesError, read_client_times
from controlplane.otlp.received import KIND_CLIENT, ReceivedSpan, Scalar
from controlplane.otlp.report import Side, SpanReport, printable, request_id_in
from dataplane import foreign_names, genai, names

_MAX_TEXT = 200
_MAX_LINKED = 8
_MAX_SECONDS = 7 * 86_400
_MAX_UNIX_NS = 2**63
_OPERATIONS = frozenset(
    {genai.OPERATION_CHAT, genai.OPERATION_TEXT_COMPLETION, genai.OPERATION_GENERATE_CONTENT}
)
_OWN_EVENTS = frozenset(
    {
        names.EVENT_CLIENT_FIRST_CONTENT,
        names.EVENT_CLIENT_FIRST_ANSWER,
        names.EVENT_CLIENT_FINAL_CONTENT,
    }
)


class Ignored(StrEnum):
    """Why a span was passed over."""

    OWN = "own"
    """Our gateway's: its record says more."""
    FOREIGN = "foreign"
    """Of neither a client nor an engine."""
    OTHER_OPERATION = "other_operation"
    """A client's, but of no model call that passes our gateway: an embedding, a tool, an agent."""
    BAD_ID = "bad_id"
    BAD_TIMES = "bad_times"
    NOT_ITS_SIDE = "not_its_side"
    """An engine's, from a sender that speaks for its own requests only."""
    DUPLICATE = "duplicate"
    """It is stored already."""


REJECTED = frozenset({Ignored.BAD_ID, Ignored.BAD_TIMES})
"""What the sender is told of: these spans are broken, the rest is merely not ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpans:
    """What a request's spans come to."""

    reports: list[SpanReport] = field(default_factory=list)
    ignored: Counter[Ignored] = field(default_factory=Counter)


def read_spans(
    received: Iterable[ReceivedSpan], sides: frozenset[Side] = frozenset(Side)
) -> ReadSpans:
    """Sort and read every span of one request; `sides` are those that its sender may tell."""
    spans = list(received)
    read = ReadSpans()
    linked = _linked_below(spans)
    for span in spans:
        outcome = _read(span, linked, sides)
        if isinstance(outcome, SpanReport):
            read.reports.append(outcome)
        else:
            read.ignored[outcome] += 1
    return read


def _linked_below(spans: list[ReceivedSpan]) -> dict[tuple[str, str], list[str]]:
    children: dict[tuple[str, str], list[str]] = defaultdict(list)
    for span in spans:
        if span.kind == KIND_CLIENT and _is_id(span.span_id, 16) and span.parent_span_id:
            children[span.trace_id, span.parent_span_id].append(span.span_id)
    return children


def _read(
    span: ReceivedSpan, linked: dict[tuple[str, str], list[str]], sides: frozenset[Side]
) -> SpanReport | Ignored:
    side = _side(span)
    if isinstance(side, Ignored):
        return side
    if side not in sides:
        return Ignored.NOT_ITS_SIDE
    parent = span.parent_span_id.strip("0") and span.parent_span_id
    has_ids = _is_id(span.trace_id, 32) and _is_id(span.span_id, 16)
    if not has_ids or (parent and not _is_id(parent, 16)):
        return Ignored.BAD_ID
    seconds = (span.end_unix_ns - span.start_unix_ns) / 1e9
    if not 0 < span.start_unix_ns < _MAX_UNIX_NS or not 0 <= seconds <= _MAX_SECONDS:
        return Ignored.BAD_TIMES
    try:
        client = read_client_times(span) if side is Side.CLIENT else None
    except BadTimesError:
        return Ignored.BAD_TIMES
    return SpanReport(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=parent or None,
        side=side,
        name=printable(span.name, _MAX_TEXT),
        source=printable(span.service or span.scope or "unknown", _MAX_TEXT),
        seconds=seconds,
        named_request_id=_named_request(span) if side is Side.CLIENT else None,
        linked_span_ids=tuple(linked.get((span.trace_id, span.span_id), ())[:_MAX_LINKED]),
        client=client,
        error=_error(span),
        attributes=_kept(span.attributes),
    )


def _side(span: ReceivedSpan) -> Side | Ignored:
    if span.scope == names.TELEMETRY_SCOPE:
        return Ignored.OWN
    if any(key.startswith(foreign_names.ENGINE_LATENCY_PREFIX) for key in span.attributes):
        return Side.ENGINE
    if span.kind != KIND_CLIENT:
        return Ignored.FOREIGN
    operation = span.attributes.get(genai.OPERATION_NAME)
    if operation is None:
        is_call = any(key.startswith("gen_ai.") for key in span.attributes) or any(
            event.name in _OWN_EVENTS for event in span.events
        )
        return Side.CLIENT if is_call else Ignored.FOREIGN
    return Side.CLIENT if operation in _OPERATIONS else Ignored.OTHER_OPERATION


def _is_id(text: str, length: int) -> bool:
    return len(text) == length and set(text) <= set("0123456789abcdef") and text.strip("0") != ""


def _named_request(span: ReceivedSpan) -> str | None:
    response_id = span.attributes.get(genai.RESPONSE_ID)
    return request_id_in(response_id) if isinstance(response_id, str) else None


def _error(span: ReceivedSpan) -> str | None:
    kind = span.attributes.get(genai.ERROR_TYPE)
    if kind is not None:
        return printable(str(kind), _MAX_TEXT)
    return "error" if span.is_error else None


def _kept(attributes: dict[str, Scalar]) -> dict[str, Scalar]:
    """Figures and names only: prompts and answers are never taken from a span."""
    kept = {key: attributes[key] for key in foreign_names.KEPT_ATTRIBUTES if key in attributes}
    return {key: _bounded(value) for key, value in kept.items() if _is_plausible(key, value)}


def _bounded(value: Scalar) -> Scalar:
    return printable(value, _MAX_TEXT) if isinstance(value, str) else value


def _is_plausible(key: str, value: Scalar) -> bool:
    if key.startswith(foreign_names.ENGINE_LATENCY_PREFIX):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and 0 <= float(value) <= _MAX_SECONDS
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) < 2**53
