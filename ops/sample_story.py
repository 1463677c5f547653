"""What happens to one made-up request, told event by event, and the record that comes of it.

Each is played through the real lifecycle, so that none of them says what a gateway could not
have recorded. Times are drawn from a seeded generator: the same seed, the same requests.
"""

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import judge
from dataplane.latency import Boundary, derive_latencies
from dataplane.lifecycle import (
    Delivery,
    Disposition,
    Event,
    EventKind,
    Lifecycle,
    Observability,
    find_event,
)
from dataplane.metering import Metered
from dataplane.outcome import Outcome
from dataplane.record import ClientReport, RequestRecord, TraceContext
from ops.sample_decisions import (
    POLICY,
    SNAPSHOT_VERSION,
    sample_admission,
    sample_routing,
)

CHAT_TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=(
        Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.3),
        Objective(signal=ObjectiveSignal.TPOT, target=0.95, at_most_seconds=0.04),
        Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.999),
    ),
    together=(ObjectiveSignal.TTFT, ObjectiveSignal.TPOT),
    together_target=0.95,
)
_OUTCOMES = {
    Disposition.STOP: Outcome.ANSWERED,
    Disposition.LENGTH: Outcome.ANSWERED,
    Disposition.CANCELLED: Outcome.CLIENT_LEFT,
    Disposition.INVALID: Outcome.CALLER_ERROR,
}
_OBSERVED = Observability.OBSERVED
_INFERRED = Observability.INFERRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request to make: who sent it, when, and how fast it goes."""

    sequence: int
    arrived_at_unix_ns: int
    gateway_id: str = "gateway-0-9c1f"
    tenant: str | None = "acme"
    request_class: str | None = "interactive"
    deployment: str | None = "chat"
    num_prompt_tokens: int = 128
    num_cached_tokens: int = 64
    num_output_tokens: int = 51
    queue_seconds: float = 0.018
    prefill_seconds: float = 0.025
    token_seconds: float = 0.001
    fields: dict[str, Any] | None = None
    """Fields of the record to set as they are."""


class Story:
    """Plays events and makes the record of what happened."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        random = Random(sample.sequence * 7919 + len(sample.gateway_id))
        self.request_id = f"{random.getrandbits(128):032x}"
        self.trace = TraceContext(
            trace_id=f"{random.getrandbits(128):032x}", span_id=f"{random.getrandbits(64):016x}"
        )
        self.lifecycle = Lifecycle(self.request_id, sample.arrived_at_unix_ns)
        self.replica_ids: tuple[str, ...] = ()
        self.num_output_tokens = 0
        self.tell(EventKind.ARRIVED, 0.0)

    def tell(self, kind: EventKind, at: float, **fields: Any) -> None:
        self.lifecycle.apply(Event(kind=kind, at=round(at, 6), **fields))

    def receive_and_admit(self) -> None:
        self.tell(EventKind.RECEIVED, 0.0011, num_tokens=self.sample.num_prompt_tokens)
        self.tell(EventKind.ADMITTED, 0.0013)

    def schedule(self, at: float, replica_id: str, **fields: Any) -> None:
        self.replica_ids += (replica_id,)
        self.tell(EventKind.SCHEDULED, at, replica_id=replica_id, **fields)

    def prefill(self, start: float, attempt: int = 0) -> float:
        """Two chunks; returns when the first token was selected."""
        sample = self.sample
        fresh = sample.num_prompt_tokens - sample.num_cached_tokens
        middle, end = start + sample.prefill_seconds / 2, start + sample.prefill_seconds
        self.tell(
            EventKind.PREFILL_CHUNK, middle, num_tokens=fresh - fresh // 2,
            num_cached_tokens=sample.num_cached_tokens, at_error=0.0004, attempt=attempt,
        )  # fmt: skip
        self.tell(
            EventKind.PREFILL_CHUNK, end, num_tokens=fresh // 2, num_cached_tokens=0,
            at_error=0.0004, attempt=attempt,
        )  # fmt: skip
        self.tell(EventKind.FIRST_TOKEN, end, at_error=0.0004, num_tokens=1, attempt=attempt)
        self.num_output_tokens = 1
        return end

    def decode(self, start: float, steps: int, seconds: float | None = None) -> float:
        """One token and one write a step; returns when the last was selected."""
        at, each = start, seconds or self.sample.token_seconds
        self.tell(EventKind.FIRST_WRITE, start + 0.001, num_tokens=1)
        for _ in range(steps):
            at += each
            self.tell(EventKind.TOKENS, at, num_tokens=1, at_error=0.0004)
            self.tell(EventKind.WRITE, at + 0.001, num_tokens=1, waited_seconds=0.0)
        self.num_output_tokens += steps
        return at

    def finish(self, at: float, disposition: Disposition, reason: str | None = None) -> None:
        self.tell(EventKind.FINISHED, at, disposition=disposition, reason=reason)

    def asked(self) -> dict[str, Any]:
        """What is known of it as soon as it was read: who asked for what, and the revisions that
        served it."""
        sample = self.sample
        return {
            "request_id": self.request_id,
            "gateway_id": sample.gateway_id,
            "gateway_sequence": sample.sequence,
            "arrived_at_unix_ns": sample.arrived_at_unix_ns,
            "endpoint": "/v1/chat/completions",
            "trace": self.trace,
            "tenant": sample.tenant,
            "request_class": sample.request_class,
            "deployment": sample.deployment,
            "model": "smollm2",
            "model_revision": "smollm2@7",
            "engine_config_revision": "paged-cpu@2",
            "contract_revision": "chat@4",
            "policy_revision": POLICY,
            "snapshot_version": SNAPSHOT_VERSION,
            "is_stream": True,
            "max_output_tokens": 256,
        }

    def record(self, status_code: int | None, client: ClientReport | None = None) -> RequestRecord:
        sample, lifecycle = self.sample, self.lifecycle
        assert lifecycle.disposition is not None
        events = tuple(lifecycle.events)
        latencies = derive_latencies(events, self.num_output_tokens, client)
        received = find_event(events, EventKind.RECEIVED)
        chunks = [e for e in events if e.kind is EventKind.PREFILL_CHUNK]
        outcome = _OUTCOMES.get(lifecycle.disposition, Outcome.SERVICE_FAILED)
        endings = (EventKind.INVALID, EventKind.REJECTED, EventKind.FINISHED)
        end = next(e for e in events if e.kind in endings)
        record = RequestRecord(
            **self.asked(),
            status_code=status_code,
            disposition=lifecycle.disposition,
            reason=end.reason,
            delivery=lifecycle.delivery or Delivery.NONE,
            num_prompt_tokens=None if received is None else received.num_tokens,
            prompt_tokens_observability=_OBSERVED if received else Observability.UNOBSERVABLE,
            num_cached_tokens=sample.num_cached_tokens if chunks else None,
            num_output_tokens=self.num_output_tokens,
            engine="paged" if self.replica_ids else None,
            replica_ids=self.replica_ids,
            cleanup_observability=_OBSERVED,
            events=events,
            client=client,
            latencies=latencies,
            judgement=judge(latencies, outcome, CHAT_TERMS, elapsed=end.at),
            metered=self._metered(end.at, is_told=bool(chunks)),
            decision=sample_admission(events, sample.request_class, lifecycle.disposition),
            routing=sample_routing(self.replica_ids),
        )
        return replace(record, **(sample.fields or {}))

    def _metered(self, ended_at: float, is_told: bool) -> Metered | None:
        """As on a replica that works on four at once, in blocks of 16."""
        scheduled = find_event(tuple(self.lifecycle.events), EventKind.SCHEDULED)
        if scheduled is None:
            return None
        seconds = ended_at - scheduled.at
        num_blocks = (self.sample.num_prompt_tokens + self.num_output_tokens) // 16 + 1
        return Metered(
            engine_seconds=seconds / 4,
            engine_observability=_OBSERVED if is_told else _INFERRED,
            kv_block_seconds=seconds * num_blocks if is_told else None,
        )
