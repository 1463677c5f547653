"""What one span tells about one request, checked and bounded: what is kept of it."""

import re
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.otlp.received import Scalar
from dataplane.lifecycle import Observability
from dataplane.record import ClientReport


class Side(StrEnum):
    """Who tells it."""

    CLIENT = "client"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTimes:
    """What the client saw, in seconds since its send, and how it knows.

    `inferred`: not from our events but from what stands nearest to them, such as the first
    chunk, which may have been empty, or the end of the span.
    """

    report: ClientReport
    first_content: Observability = Observability.OBSERVED
    final_content: Observability = Observability.OBSERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanReport:
    """One span of a client or an engine. Texts are printable and short."""

    trace_id: str
    span_id: str
    parent_span_id: str | None
    side: Side
    name: str
    source: str
    """The service that sent it, or the library that made it."""
    seconds: float
    """Of the whole span, on its own clock."""
    named_request_id: str | None = None
    """The request whose answer the client says it got: our response ids hold the request's."""
    linked_span_ids: tuple[str, ...] = ()
    """CLIENT spans below this one: an HTTP library's, whose id is what the gateway was sent."""
    client: ClientTimes | None = None
    error: str | None = None
    attributes: dict[str, Scalar] = field(default_factory=dict)

    @property
    def has_content(self) -> bool:
        """The client got some of an answer."""
        report = self.client.report if self.client else None
        return report is not None and (
            report.first_content is not None or report.final_content is not None
        )


_RESPONSE_ID = re.compile(r"(?:chatcmpl|cmpl)-([0-9A-Za-z_.-]{1,64})")


def request_id_in(response_id: str) -> str | None:
    """The request that an OpenAI response id of our gateway names."""
    match = _RESPONSE_ID.fullmatch(response_id)
    return match and match[1]


def printable(text: str, limit: int) -> str:
    """`text` without what a terminal or a database would stumble over, and short."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(char if char.isprintable() else "\ufffd" for char in cut)
