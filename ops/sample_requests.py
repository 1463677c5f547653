"""Made-up requests of every kind that can end, for screenshots, benches and tests.

Each is played through the real lifecycle, so that none of them says what a gateway could not
have recorded. Times are drawn from a seeded generator: the same seed, the same requests.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.gateway.inflight import InFlightEntry, lost_record
from dataplane.judgement import judge
from dataplane.latency import Boundary, derive_latencies
from dataplane.lifecycle import (
    CLIENT_LEFT,
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
from ops.sample_decisions import sample_admission, sample_routing

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


class _Story:
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
            request_id=self.request_id,
            gateway_id=sample.gateway_id,
            gateway_sequence=sample.sequence,
            arrived_at_unix_ns=sample.arrived_at_unix_ns,
            endpoint="/v1/chat/completions",
            tenant=sample.tenant,
            request_class=sample.request_class,
            deployment=sample.deployment,
            model="smollm2",
            model_revision="smollm2@7",
            engine_config_revision="paged-cpu@2",
            contract_revision="chat@4",
            policy_revision="chat@12",
            snapshot_version=31,
            trace=self.trace,
            is_stream=True,
            status_code=status_code,
            disposition=lifecycle.disposition,
            reason=end.reason,
            delivery=lifecycle.delivery or Delivery.NONE,
            num_prompt_tokens=None if received is None else received.num_tokens,
            prompt_tokens_observability=_OBSERVED if received else Observability.UNOBSERVABLE,
            num_cached_tokens=sample.num_cached_tokens if chunks else None,
            num_output_tokens=self.num_output_tokens,
            max_output_tokens=256,
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


def answered(sample: Sample, disposition: Disposition = Disposition.STOP) -> RequestRecord:
    """Answered whole."""
    story = _Story(sample)
    story.receive_and_admit()
    story.schedule(sample.queue_seconds, "chat-2")
    first = story.prefill(sample.queue_seconds)
    end = story.decode(first, max(0, sample.num_output_tokens - 1))
    story.finish(end, disposition)
    story.tell(EventKind.LAST_WRITE, end + 0.003, delivery=Delivery.COMPLETE, waited_seconds=0.0)
    story.tell(EventKind.RELEASED, end + 0.014, reason="a step was in flight")
    return story.record(200)


def cut_off(sample: Sample) -> RequestRecord:
    """Answered up to its token limit."""
    return answered(sample, Disposition.LENGTH)


def reported(sample: Sample) -> RequestRecord:
    """Answered whole, and the client told what it saw."""
    record = answered(sample)
    first = find_event(record.events, EventKind.FIRST_TOKEN)
    last = find_event(record.events, EventKind.LAST_WRITE)
    assert first is not None
    assert last is not None
    client = ClientReport(
        first_content=first.at + 0.008, final_content=last.at + 0.003, clock_error=0.0
    )
    latencies = derive_latencies(record.events, record.num_output_tokens, client)
    return replace(record, client=client, latencies=latencies)


def preempted(sample: Sample) -> RequestRecord:
    """Lost its memory in the middle of decoding, and got it back."""
    story = _Story(sample)
    story.receive_and_admit()
    story.schedule(sample.queue_seconds, "chat-1")
    first = story.prefill(sample.queue_seconds)
    half = story.decode(first, sample.num_output_tokens // 2)
    story.tell(EventKind.PREEMPTED, half + 0.0005, reason="no free block for an older request")
    back = half + 0.22
    story.tell(EventKind.RESUMED, back)
    story.tell(
        EventKind.PREFILL_CHUNK, back + 0.03, num_tokens=sample.num_prompt_tokens // 2,
        num_cached_tokens=sample.num_cached_tokens,
    )  # fmt: skip
    at = back + 0.03
    for _ in range(sample.num_output_tokens // 2):
        at += sample.token_seconds
        story.tell(EventKind.TOKENS, at, num_tokens=1)
        story.tell(EventKind.WRITE, at + 0.001, num_tokens=1, waited_seconds=0.0)
        story.num_output_tokens += 1
    story.finish(at, Disposition.STOP)
    story.tell(EventKind.LAST_WRITE, at + 0.003, delivery=Delivery.COMPLETE, waited_seconds=0.0)
    story.tell(EventKind.RELEASED, at + 0.009)
    return story.record(200)


def retried(sample: Sample) -> RequestRecord:
    """Its first replica vanished before the first token; a second one answered."""
    story = _Story(sample)
    story.receive_and_admit()
    story.schedule(sample.queue_seconds, "chat-1")
    again = sample.queue_seconds + 0.09
    story.schedule(again, "chat-2", attempt=1)
    first = story.prefill(again, attempt=1)
    end = story.decode(first, sample.num_output_tokens - 1)
    story.finish(end, Disposition.STOP)
    story.tell(EventKind.LAST_WRITE, end + 0.002, delivery=Delivery.COMPLETE, waited_seconds=0.0)
    story.tell(EventKind.RELEASED, end + 0.006)
    return story.record(200)


def cancelled(sample: Sample) -> RequestRecord:
    """The client left in the middle of the answer."""
    story = _Story(sample)
    story.receive_and_admit()
    story.schedule(sample.queue_seconds, "chat-3")
    first = story.prefill(sample.queue_seconds)
    end = story.decode(first, sample.num_output_tokens // 3)
    story.tell(EventKind.LAST_WRITE, end + 0.004, delivery=Delivery.PARTIAL, waited_seconds=0.002)
    story.finish(end + 0.007, Disposition.CANCELLED, CLIENT_LEFT)
    story.tell(EventKind.RELEASED, end + 0.019, reason="a step was in flight")
    return story.record(200)


def rejected(sample: Sample) -> RequestRecord:
    """Not admitted."""
    story = _Story(sample)
    story.tell(EventKind.RECEIVED, 0.0012, num_tokens=sample.num_prompt_tokens)
    story.tell(
        EventKind.REJECTED, 0.0014, reason="queue of class interactive is full (64 of 64 wait)"
    )
    story.tell(EventKind.LAST_WRITE, 0.0019, delivery=Delivery.NONE)
    return story.record(503)


def invalid(sample: Sample) -> RequestRecord:
    """Refused as wrong before it was counted."""
    story = _Story(sample)
    story.tell(EventKind.INVALID, 0.0006, reason="temperature must lie between 0 and 2, got 7")
    story.tell(EventKind.LAST_WRITE, 0.0009, delivery=Delivery.NONE)
    record = story.record(400)
    return replace(record, request_class=None, contract_revision=None, policy_revision=None)


def expired(sample: Sample) -> RequestRecord:
    """Waited past its deadline."""
    story = _Story(sample)
    story.receive_and_admit()
    story.finish(10.0, Disposition.DEADLINE, "waited 10 s for a slot, the class allows 10 s")
    story.tell(EventKind.LAST_WRITE, 10.0004, delivery=Delivery.NONE)
    return story.record(503)


def failed(sample: Sample) -> RequestRecord:
    """Its replica vanished in the middle of the answer."""
    story = _Story(sample)
    story.receive_and_admit()
    story.schedule(sample.queue_seconds, "chat-1")
    first = story.prefill(sample.queue_seconds)
    end = story.decode(first, sample.num_output_tokens // 2)
    story.finish(end + 0.35, Disposition.ERROR, "replica chat-1 vanished: connection reset")
    story.tell(EventKind.LAST_WRITE, end + 0.351, delivery=Delivery.PARTIAL)
    return story.record(200)


def lost(sample: Sample) -> RequestRecord:
    """Its gateway died while it was decoded: recorded from what the next one found of it."""
    story = _Story(sample)
    record = lost_record(
        InFlightEntry(
            request_id=story.request_id,
            gateway_id=sample.gateway_id,
            gateway_sequence=sample.sequence,
            arrived_at_unix_ns=sample.arrived_at_unix_ns,
            endpoint="/v1/chat/completions",
            trace=story.trace,
            snapshot_version=31,
            tenant=sample.tenant,
            request_class=sample.request_class,
            deployment=sample.deployment,
            model="smollm2",
            model_revision="smollm2@7",
            engine_config_revision="paged-cpu@2",
            contract_revision="chat@4",
            policy_revision="chat@12",
            terms=CHAT_TERMS,
            is_stream=True,
            num_prompt_tokens=sample.num_prompt_tokens,
            prompt_tokens_observability=_OBSERVED,
            max_output_tokens=256,
            engine="paged",
            replica_ids=("chat-1",),
            has_written=True,
        )
    )
    return replace(record, **(sample.fields or {}))


def inferred(sample: Sample) -> RequestRecord:
    """Answered by an attached endpoint that shows nothing but its output."""
    story = _Story(sample)
    story.tell(EventKind.RECEIVED, 0.0008, num_tokens=117, observability=_INFERRED)
    story.tell(EventKind.ADMITTED, 0.0009)
    story.schedule(0.0021, "remote-0", observability=_INFERRED)
    first = 0.164
    story.tell(EventKind.FIRST_TOKEN, first, observability=_INFERRED, num_tokens=1)
    story.tell(EventKind.FIRST_WRITE, first + 0.0004, num_tokens=1)
    at = first
    for _ in range(14):
        at += 0.0182
        story.tell(EventKind.TOKENS, at, num_tokens=3, observability=_INFERRED)
        story.tell(EventKind.WRITE, at + 0.0004, num_tokens=3, waited_seconds=0.0)
    story.num_output_tokens = 43
    story.tell(EventKind.FINISHED, at, disposition=Disposition.STOP, observability=_INFERRED)
    story.tell(EventKind.LAST_WRITE, at + 0.0009, delivery=Delivery.COMPLETE)
    record = story.record(200)
    return replace(
        record,
        engine="openai",
        deployment="remote",
        model="qwen3-4b",
        model_revision="qwen3@3",
        prompt_tokens_observability=_INFERRED,
        output_tokens_observability=_INFERRED,
        cleanup_observability=Observability.UNOBSERVABLE,
    )


KINDS: dict[str, Callable[[Sample], RequestRecord]] = {
    "answered": answered,
    "cut_off": cut_off,
    "reported": reported,
    "preempted": preempted,
    "retried": retried,
    "cancelled": cancelled,
    "rejected": rejected,
    "invalid": invalid,
    "expired": expired,
    "failed": failed,
    "lost": lost,
    "inferred": inferred,
}


def traffic(num_requests: int, until_unix_ns: int, seed: int = 7) -> list[RequestRecord]:
    """A mixed half hour that ends at `until_unix_ns`; every kind occurs from 40 requests on."""
    random = Random(seed)
    rare = ("rejected", "invalid", "expired", "failed", "lost", "cancelled", "preempted", "retried")
    records = []
    for sequence in range(num_requests):
        age = (num_requests - sequence) / num_requests * 1790
        kind = random.choices(("answered", "cut_off", "inferred"), weights=(80, 14, 6))[0]
        if sequence % 5 == 3:
            kind = rare[sequence // 5 % len(rare)]
        is_slow = random.random() < 0.06
        sample = Sample(
            sequence=sequence,
            arrived_at_unix_ns=until_unix_ns - int(age * 1e9),
            tenant=random.choice(("acme", "globex", "initech")),
            request_class=random.choices(("interactive", "batch"), weights=(3, 1))[0],
            num_prompt_tokens=random.randrange(80, 1400),
            num_cached_tokens=random.choice((0, 16, 64)),
            num_output_tokens=random.randrange(12, 90),
            queue_seconds=random.uniform(0.3, 0.9) if is_slow else random.uniform(0.002, 0.03),
            prefill_seconds=random.uniform(0.02, 0.15),
            token_seconds=random.uniform(0.004, 0.03),
        )
        records.append(KINDS[kind](sample))
    return records
