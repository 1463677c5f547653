"""Made-up requests of every kind that can end, for screenshots, benches and tests.

A kind says what happens to a `Sample`; how that is played and recorded is in `sample_story`.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from dataplane.gateway.inflight import InFlightEntry, lost_record
from dataplane.latency import derive_latencies
from dataplane.lifecycle import (
    CLIENT_LEFT,
    Delivery,
    Disposition,
    EventKind,
    Observability,
    find_event,
)
from dataplane.record import ClientReport, RequestRecord
from ops.sample_story import CHAT_TERMS, Sample, Story

__all__ = [
    "CHAT_TERMS",
    "KINDS",
    "Sample",
    "answered",
    "cancelled",
    "cut_off",
    "expired",
    "failed",
    "inferred",
    "invalid",
    "lost",
    "preempted",
    "rejected",
    "reported",
    "retried",
    "traffic",
]


def answered(sample: Sample, disposition: Disposition = Disposition.STOP) -> RequestRecord:
    """Answered whole."""
    story = Story(sample)
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
    story = Story(sample)
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
    story = Story(sample)
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
    story = Story(sample)
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
    story = Story(sample)
    story.tell(EventKind.RECEIVED, 0.0012, num_tokens=sample.num_prompt_tokens)
    story.tell(
        EventKind.REJECTED, 0.0014, reason="queue of class interactive is full (64 of 64 wait)"
    )
    story.tell(EventKind.LAST_WRITE, 0.0019, delivery=Delivery.NONE)
    return story.record(503)


def invalid(sample: Sample) -> RequestRecord:
    """Refused as wrong before it was counted."""
    story = Story(sample)
    story.tell(EventKind.INVALID, 0.0006, reason="temperature must lie between 0 and 2, got 7")
    story.tell(EventKind.LAST_WRITE, 0.0009, delivery=Delivery.NONE)
    record = story.record(400)
    return replace(record, request_class=None, contract_revision=None, policy_revision=None)


def expired(sample: Sample) -> RequestRecord:
    """Waited past its deadline."""
    story = Story(sample)
    story.receive_and_admit()
    story.finish(10.0, Disposition.DEADLINE, "waited 10 s for a slot, the class allows 10 s")
    story.tell(EventKind.LAST_WRITE, 10.0004, delivery=Delivery.NONE)
    return story.record(503)


def failed(sample: Sample) -> RequestRecord:
    """Its replica vanished in the middle of the answer."""
    story = Story(sample)
    story.receive_and_admit()
    story.schedule(sample.queue_seconds, "chat-1")
    first = story.prefill(sample.queue_seconds)
    end = story.decode(first, sample.num_output_tokens // 2)
    story.finish(end + 0.35, Disposition.ERROR, "replica chat-1 vanished: connection reset")
    story.tell(EventKind.LAST_WRITE, end + 0.351, delivery=Delivery.PARTIAL)
    return story.record(200)


def lost(sample: Sample) -> RequestRecord:
    """Its gateway died while it was decoded: recorded from what the next one found of it."""
    story = Story(sample)
    record = lost_record(
        InFlightEntry(
            **story.asked(),
            terms=CHAT_TERMS,
            num_prompt_tokens=sample.num_prompt_tokens,
            prompt_tokens_observability=Observability.OBSERVED,
            engine="paged",
            replica_ids=("chat-1",),
            has_written=True,
        )
    )
    return replace(record, **(sample.fields or {}))


def inferred(sample: Sample) -> RequestRecord:
    """Answered by an attached endpoint that shows nothing but its output."""
    story = Story(sample)
    story.tell(EventKind.RECEIVED, 0.0008, num_tokens=117, observability=Observability.INFERRED)
    story.tell(EventKind.ADMITTED, 0.0009)
    story.schedule(0.0021, "remote-0", observability=Observability.INFERRED)
    first = 0.164
    story.tell(EventKind.FIRST_TOKEN, first, observability=Observability.INFERRED, num_tokens=1)
    story.tell(EventKind.FIRST_WRITE, first + 0.0004, num_tokens=1)
    at = first
    for _ in range(14):
        at += 0.0182
        story.tell(EventKind.TOKENS, at, num_tokens=3, observability=Observability.INFERRED)
        story.tell(EventKind.WRITE, at + 0.0004, num_tokens=3, waited_seconds=0.0)
    story.num_output_tokens = 43
    story.tell(
        EventKind.FINISHED, at, disposition=Disposition.STOP, observability=Observability.INFERRED
    )
    story.tell(EventKind.LAST_WRITE, at + 0.0009, delivery=Delivery.COMPLETE)
    record = story.record(200)
    return replace(
        record,
        engine="openai",
        deployment="remote",
        model="qwen3-4b",
        model_revision="qwen3@3",
        prompt_tokens_observability=Observability.INFERRED,
        output_tokens_observability=Observability.INFERRED,
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
