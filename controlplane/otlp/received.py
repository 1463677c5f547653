"""A span as it came in, whatever it was encoded in. Nothing in it was checked yet."""

from dataclasses import dataclass
from typing import NamedTuple

Scalar = str | bool | int | float

MAX_BODY_BYTES = 8 * 2**20
"""Of one request, inflated. Decoded it can be some thirty times as large."""
MAX_SPANS = 10_000
"""Of one request; a collector's batch holds 8,192 by default."""
MAX_ATTRIBUTES = 256
"""Looked at per span; what stands behind them is not read."""
MAX_EVENTS = 20_000
"""Looked at per span: some clients write one for every chunk."""
MAX_DETAILS = 250_000
"""Attributes and events of one request."""

KIND_CLIENT = 3


class NotDecodableError(ValueError):
    """The body is no trace data. Nothing of it was taken."""


class TooLargeError(ValueError):
    """The body holds more than one request may."""


class SpanEvent(NamedTuple):
    """Something that happened inside a span."""

    name: str
    at_unix_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """One span. Ids are hex as sent: of any length, even empty."""

    trace_id: str
    span_id: str
    parent_span_id: str
    kind: int
    name: str
    scope: str
    service: str
    start_unix_ns: int
    end_unix_ns: int
    is_error: bool
    attributes: dict[str, Scalar]
    """Only those that hold one value; of a key given twice, the first."""
    events: tuple[SpanEvent, ...]


def too_many_spans() -> TooLargeError:
    """What to raise when a body holds more than MAX_SPANS."""
    return TooLargeError(f"more than {MAX_SPANS} spans in one request; send smaller batches")


def too_many_details() -> TooLargeError:
    """What to raise when spans say more than MAX_DETAILS."""
    return TooLargeError(
        f"more than {MAX_DETAILS} attributes and events in one request; send smaller batches"
    )
