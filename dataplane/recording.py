"""From what happened to a request to its record: pure, for whoever let it happen."""

import dataclasses
from dataclasses import dataclass

from dataplane.contract_terms import ContractTerms
from dataplane.decision import AdmissionDecision, RoutingDecision, ShadowDecision
from dataplane.judgement import judge
from dataplane.latency import derive_latencies
from dataplane.lifecycle import (
    Event,
    EventKind,
    Lifecycle,
    Observability,
    find_event,
)
from dataplane.metering import Metered
from dataplane.outcome import outcome_of
from dataplane.pace import join_pace
from dataplane.record import RecordedContent, RequestRecord

MAX_PACE_EVENTS = 8192
"""Of a record: with more, neighbours are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestEnd:
    """What is known of a request only once it has ended, beside its lifecycle."""

    status_code: int | None
    num_cached_tokens: int | None
    num_output_tokens: int
    terms: ContractTerms | None
    """What its class was promised; None where no contract applies."""
    elapsed: float
    """Seconds it was alive, where no last write says so."""
    output_tokens_observability: Observability = Observability.OBSERVED
    cleanup_observability: Observability = Observability.UNOBSERVABLE
    content: RecordedContent | None = None
    decision: AdmissionDecision | None = None
    shadow: ShadowDecision | None = None
    routing: tuple[RoutingDecision, ...] = ()
    metered: Metered | None = None


def end_record(begun: RequestRecord, lifecycle: Lifecycle, end: RequestEnd) -> RequestRecord:
    """`begun` says what was known when the request was decided on; the rest follows from its
    events. Raises AssertionError for a request that has not ended."""
    disposition, delivery = lifecycle.disposition, lifecycle.delivery
    if disposition is None or delivery is None:
        raise AssertionError(f"request {lifecycle.request_id} has not ended: {lifecycle.state}")
    latencies = derive_latencies(lifecycle.events, end.num_output_tokens)
    events, num_joined = join_pace(lifecycle.events, MAX_PACE_EVENTS)
    return dataclasses.replace(
        begun,
        status_code=end.status_code,
        disposition=disposition,
        reason=_reason(events),
        delivery=delivery,
        num_cached_tokens=end.num_cached_tokens,
        num_output_tokens=end.num_output_tokens,
        output_tokens_observability=end.output_tokens_observability,
        cleanup_observability=end.cleanup_observability,
        events=events,
        latencies=latencies,
        judgement=None
        if end.terms is None
        else judge(
            latencies,
            outcome_of(disposition, delivery, end.status_code),
            end.terms,
            _elapsed(lifecycle, end.elapsed),
        ),
        content=end.content,
        num_joined_events=num_joined,
        decision=end.decision,
        shadow=end.shadow,
        routing=end.routing,
        metered=end.metered,
    )


def _elapsed(lifecycle: Lifecycle, elapsed: float) -> float:
    last_write = find_event(lifecycle.events, EventKind.LAST_WRITE)
    return elapsed if last_write is None else last_write.at


def _reason(events: tuple[Event, ...]) -> str | None:
    """Of the end; a request of several sequences ends with the last of them."""
    ends = (EventKind.FINISHED, EventKind.REJECTED, EventKind.INVALID)
    return next((event.reason for event in reversed(events) if event.kind in ends), None)
