"""What is kept of a request when it has ended: written once, by the gateway.

A record is the single source of spans, of the compact row, of the counts per minute
and of the console's waterfall. It holds no prompt and no output text: those live in
`content`, which stays None unless the tenant opted in.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from dataplane.arm import Arm
from dataplane.decision import AdmissionDecision, RoutingDecision, ShadowDecision
from dataplane.judgement import Judgement
from dataplane.latency import Latencies
from dataplane.lifecycle import (
    Delivery,
    Disposition,
    Event,
    EventKind,
    Observability,
    find_event,
)
from dataplane.metering import Metered


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """What the client says it saw, in seconds on its own clock since it sent the request.

    `clock_error` bounds, in seconds, how far the client's send may lie before the
    gateway's arrival; it is None where nobody knows, and then no interval is ever
    formed between a client time and a server time.
    """

    first_content: float | None = None
    first_answer: float | None = None
    """The first content that is no reasoning."""
    final_content: float | None = None
    clock_error: float | None = None
    max_chunk_gap: float | None = None
    """Longest wait between two chunks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceContext:
    """W3C trace context of the `request` span. Ids are lower-case hex."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    is_sampled: bool = True
    trace_state: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedContent:
    """Prompt and output text, only for a tenant that opted in."""

    prompt: str
    output: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPlace:
    """Where a request stood in a rollout of its deployment."""

    number: int
    """Of the rollout."""
    arm: Arm
    """Also of one that was answered by the stable arm in the end, because the candidate was lost
    meanwhile: what it suffered by that is the candidate's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request, whole. Times inside are seconds since `arrived_at_unix_ns`."""

    request_id: str
    gateway_id: str
    gateway_sequence: int
    """Counts the records of one gateway from 0; with `gateway_id` it makes ingestion idempotent."""
    arrived_at_unix_ns: int
    endpoint: str
    """The HTTP path, such as /v1/chat/completions."""
    tenant: str | None
    request_class: str | None
    deployment: str | None
    model: str | None
    model_revision: str | None
    engine_config_revision: str | None
    contract_revision: str | None
    policy_revision: str | None
    snapshot_version: int
    trace: TraceContext
    is_stream: bool
    status_code: int | None
    """What the client was answered, or None when it left before an answer began."""
    disposition: Disposition
    reason: str | None
    delivery: Delivery
    num_prompt_tokens: int | None
    prompt_tokens_observability: Observability
    num_cached_tokens: int | None
    num_output_tokens: int | None
    """None where nobody knows: its gateway died."""
    max_output_tokens: int | None
    engine: str | None
    replica_ids: tuple[str, ...]
    """The replica of each attempt, in order."""
    cleanup_observability: Observability
    events: tuple[Event, ...]
    client: ClientReport | None
    latencies: Latencies
    judgement: Judgement | None
    """None when no contract applies."""
    output_tokens_observability: Observability = Observability.OBSERVED
    """`inferred`: the engine shows chunks, and each was counted as one token, or its own count
    cannot be, and what it streamed was counted. `unobservable`: there is no count."""
    content: RecordedContent | None = None
    num_joined_events: int = 0
    """Events of tokens and writes that became one with the next of their sequence, because there
    were too many. `latencies` are of all of them."""
    decision: AdmissionDecision | None = None
    """None where it was never asked for: the request was invalid, or lost before its end."""
    routing: tuple[RoutingDecision, ...] = ()
    """One for each attempt that a router chose a replica for, in order."""
    metered: Metered | None = None
    """None: it was never submitted to an engine, or is of before this was measured."""
    rollout: RolloutPlace | None = None
    """None: none was under way, or neither arm was chosen for it."""
    shadow: ShadowDecision | None = None
    """None: no policy looked on."""

    @property
    def num_input_tokens(self) -> int:
        """Prompt tokens that count as input, wherever tokens are added up.

        Only those of a request whose engine work began: one that was refused, or that left the
        queue without a slot, put nothing into any engine, however long its prompt was.
        """
        was_scheduled = find_event(self.events, EventKind.SCHEDULED) is not None
        return (self.num_prompt_tokens or 0) if was_scheduled else 0


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(RequestRecord)


def encode_record(record: RequestRecord) -> bytes:
    """The record as one line of JSON, without a newline."""
    return _ENCODER.encode(record)


def decode_record(data: bytes) -> RequestRecord:
    """Raises msgspec.ValidationError, which names the offending path, when `data` is no record."""
    return _DECODER.decode(data)


def record_to_dict(record: RequestRecord) -> dict[str, Any]:
    """Plain JSON types, for the API."""
    plain: dict[str, Any] = msgspec.to_builtins(record)
    plain["events"] = _whole(record.events)
    plain["decision"] = _whole(record.decision)
    plain["routing"] = _whole(record.routing)
    return plain


def _whole(value: Any) -> Any:
    """With what is left out on the wire."""
    if isinstance(value, msgspec.Struct):
        return {name: _whole(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple):
        return [_whole(each) for each in value]
    return msgspec.to_builtins(value)
