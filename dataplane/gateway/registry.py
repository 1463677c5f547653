"""Every request this gateway has: what is known of each so far, and where each stands.

A request lives here from its first byte until its record is written. Counts are taken in
one pass over the living plus the totals of those that left, so that a snapshot is of one
moment and invariant 5 can be checked on it rather than hold by construction.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dataplane.backlog import Backlog
from dataplane.clock import MonotonicClock
from dataplane.decision import AdmissionDecision, RoutingDecision, ShadowDecision
from dataplane.engine import EngineCapabilities
from dataplane.gateway.connection import Arrival
from dataplane.lifecycle import (
    Event,
    EventKind,
    Lifecycle,
    Observability,
    RequestCounts,
    State,
    settle_error,
)
from dataplane.metering import Metering
from dataplane.policy import DeploymentPolicy, ReplicaEndpoint, Snapshot, TenantPolicy
from dataplane.queueing.queue import Ticket
from dataplane.record import RolloutPlace, TraceContext

_UNDECIDED = frozenset({State.NEW, State.ARRIVED, State.RECEIVED})
_ACTIVE = frozenset({State.QUEUED, State.PREFILL, State.DECODE})


@dataclass(slots=True)
class TransitBound:
    """How much later than anchored an attempt's engine events may really have happened.

    An engine counts from when it received the submission, which we cannot see; every event
    says that no more than its own transit can be hidden, so the smallest one is the bound.
    """

    submitted_at: float
    seconds: float | None = None

    def anchor(self, offset: float, received_at: float) -> float:
        """The event's time, in seconds since the request's arrival."""
        hidden = max(0.0, received_at - offset - self.submitted_at)
        self.seconds = hidden if self.seconds is None else min(self.seconds, hidden)
        return self.submitted_at + offset


@dataclass(slots=True, eq=False)
class InFlightRequest:
    """One request, as far as it has come. Only the flow and its two sides change it."""

    lifecycle: Lifecycle
    trace: TraceContext
    endpoint: str
    arrival: Arrival
    snapshot_version: int
    enforced_at_arrival: Snapshot
    """What it was promised is in this one, also where another has come since."""
    gateway_sequence: int
    """Reserved at arrival, so that a lost request and an ended one never both count."""
    clock: MonotonicClock
    tenant_name: str | None = None
    tenant: TenantPolicy | None = None
    model: str | None = None
    deployment: DeploymentPolicy | None = None
    """As the arm has it that serves it."""
    rollout: RolloutPlace | None = None
    request_class: str | None = None
    policy_revision: str | None = None
    decision: AdmissionDecision | None = None
    shadow: ShadowDecision | None = None
    routing: list[RoutingDecision] = field(default_factory=list)
    metering: Metering = field(default_factory=Metering)
    """One for each attempt."""
    is_stream: bool = False
    max_output_tokens: int | None = None
    num_prompt_tokens: int | None = None
    prompt_tokens_observability: Observability = Observability.UNOBSERVABLE
    num_cached_tokens: int | None = None
    num_output_tokens: int = 0
    output_tokens_observability: Observability | None = None
    """Where its engine's own count is not believed; None: as its engine counts."""
    replica_ids: list[str] = field(default_factory=list)
    capabilities: EngineCapabilities | None = None
    """Of the engine that has it, once one does."""
    replica: ReplicaEndpoint | None = None
    """That has it, or had it last."""
    ticket: Ticket | None = None
    """Of its deployment's queue, while it waits there."""
    status: int | None = None
    prompt_text: str | None = None
    output_parts: dict[int, list[str | Mapping[str, Any]]] | None = None
    """By sequence; collected only when the tenant opted in."""
    waits_for_client: bool = False
    backlog: Backlog | None = None
    """What waits for its client, once an engine may have it."""
    has_written: bool = False
    on_progress: Callable[["InFlightRequest"], None] = lambda request: None
    """Called with it when more is known of it than a crash should forget."""
    _bounds: dict[int, TransitBound] = field(default_factory=dict)

    @property
    def request_id(self) -> str:
        """On every answer, record and log line."""
        return self.lifecycle.request_id

    @property
    def state(self) -> State:
        """Of the lifecycle."""
        return self.lifecycle.state

    def now(self) -> float:
        """Seconds since the first byte arrived."""
        return max(0.0, self.clock() - self.arrival.at)

    def note_progress(self) -> None:
        """More is known of it than a crash should forget."""
        self.on_progress(self)

    def apply(self, kind: EventKind, at: float | None = None, **fields: Any) -> None:
        """Record an event, now unless `at` says when. Raises LifecycleError."""
        self.lifecycle.apply(Event(kind=kind, at=self.now() if at is None else at, **fields))

    def apply_anchored(self, event: Event, bound: TransitBound) -> None:
        """Record an event of the engine's clock, whose error is known when its attempt ended."""
        self.lifecycle.apply(event)
        self._bounds[len(self.lifecycle.events) - 1] = bound

    def settle_errors(self) -> None:
        """Write into each anchored event what its attempt's transit turned out to hide."""
        for index, bound in self._bounds.items():
            if bound.seconds is not None:
                settle_error(self.lifecycle.events[index], bound.seconds)
        self._bounds.clear()

    def keep_output(self, sequence: int, text: str, delta: Mapping[str, Any] | None) -> None:
        """Remember what was produced, where the tenant wants it recorded."""
        if self.output_parts is not None:
            parts = self.output_parts.setdefault(sequence, [])
            parts += [part for part in (text, delta) if part]

    def waits_for(self) -> str:
        """What has to happen next, in words."""
        if self.lifecycle.is_terminal and not self.lifecycle.is_delivered:
            return "the client to take the rest"
        if self.ticket is not None and self.ticket.outcome is None:
            # A retry as well, whatever was begun elsewhere.
            return self.ticket.waits_for
        match self.state:
            case State.NEW | State.ARRIVED:
                return "its body to be complete and counted"
            case State.RECEIVED:
                return "the admission decision"
            case State.QUEUED:
                return "the engine to schedule it" if self.replica_ids else "a slot"
            case State.PREFILL:
                return "its first token"
            case State.DECODE if self.backlog is not None and self.backlog.is_paused:
                if self.backlog.is_engine_paused:
                    return "the client to read, with its engine paused"
                return "the client to read; its engine does not say that it is paused"
            case State.DECODE:
                return "the client to read" if self.waits_for_client else "the next token"
            case _:
                return "the engine to release what it held"

    def queue_age_seconds(self) -> float | None:
        """Since it took its place in its queue; None outside of it."""
        if self.ticket is None or self.ticket.outcome is not None:
            return None
        return max(0.0, self.clock() - self.ticket.entered_at)

    def describe(self, positions: Mapping[Ticket, int]) -> dict[str, Any]:
        """One line of the live list; no text of prompt or output. `positions` are those of
        everybody who waits in a queue."""
        return {
            "request_id": self.request_id,
            "trace_id": self.trace.trace_id,
            "endpoint": self.endpoint,
            "state": self.state,
            "age_seconds": self.now(),
            "waits_for": self.waits_for(),
            "queue_position": None if self.ticket is None else positions.get(self.ticket),
            "queue_age_seconds": self.queue_age_seconds(),
            "tenant": self.tenant_name,
            "request_class": self.request_class,
            "deployment": self.deployment.name if self.deployment else None,
            "arm": self.rollout.arm if self.rollout else None,
            "model": self.model,
            "is_stream": self.is_stream,
            "replica_id": self.replica_ids[-1] if self.replica_ids else None,
            "attempt": self.lifecycle.attempt,
            "num_prompt_tokens": self.num_prompt_tokens,
            "num_output_tokens": self.num_output_tokens,
            "max_output_tokens": self.max_output_tokens,
            "num_unread_bytes": None if self.backlog is None else self.backlog.num_bytes,
        }


class Registry:
    """The requests in flight, and totals of those that left. One event loop owns it."""

    def __init__(self) -> None:
        self._live: dict[str, InFlightRequest] = {}
        self._num_arrived = 0
        self._left: Counter[State] = Counter()
        self.empty = asyncio.Event()
        """Set while nothing is in flight."""
        self.empty.set()

    def __len__(self) -> int:
        return len(self._live)

    def open(self, request: InFlightRequest) -> None:
        """A request arrived."""
        self._num_arrived += 1
        self._live[request.request_id] = request
        self.empty.clear()

    def close(self, request: InFlightRequest) -> None:
        """Its record is written; it must have ended."""
        if not request.lifecycle.is_terminal:
            raise AssertionError(
                f"request {request.request_id} leaves in state {request.state}, without an end"
            )
        del self._live[request.request_id]
        self._left[request.state] += 1
        if not self._live:
            self.empty.set()

    def live(self) -> list[InFlightRequest]:
        """Oldest first."""
        return list(self._live.values())

    def counts(self) -> RequestCounts:
        """Where every request since the start of this process stands, at this moment."""
        states = self._left.copy()
        states.update(request.state for request in self._live.values())
        active = sum(states[state] for state in _ACTIVE)
        return RequestCounts(
            arrived=self._num_arrived,
            invalid=states[State.INVALID],
            undecided=sum(states[state] for state in _UNDECIDED),
            rejected=states[State.REJECTED],
            admitted=active + states[State.FINISHED],
            active=active,
            finished=states[State.FINISHED],
        )
