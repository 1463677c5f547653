"""The life of one request: its states, its events, and the one method that may change it.

Spans, metrics, console, judgement and diagnosis all read the events recorded here,
so nothing is timed twice and no two surfaces can disagree. A request is a small
state machine::

    (new) -arrived-> ARRIVED -received-> RECEIVED -admitted-> QUEUED
                        |                    |                   |
                     invalid              rejected           scheduled
                        v                    v                   v
                     INVALID             REJECTED            PREFILL -first_token-> DECODE
                                                                 \\________finished_____/
                                                                            v
                                                                         FINISHED

A request may have several sequences (`n > 1`). `stop` and `length` end one of them, and the
last one ends the request; every other disposition ends the request with all it has.

Delivery to the client and release of memory run beside it: `first_write` opens
delivery, `last_write` closes it, and `released` says that every block and slot of
the request can be used again. *Finished is not released.*

All times are seconds on the gateway's monotonic clock since the first byte of the
request arrived; `Lifecycle.arrived_at_unix_ns` anchors them in wall-clock time, once.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec


class EventKind(StrEnum):
    """What can happen to a request. The order here is the order of a plain request's life."""

    ARRIVED = "arrived"
    RECEIVED = "received"
    INVALID = "invalid"
    ADMITTED = "admitted"
    REJECTED = "rejected"
    SCHEDULED = "scheduled"
    PREFILL_CHUNK = "prefill_chunk"
    FIRST_TOKEN = "first_token"
    TOKENS = "tokens"
    PREEMPTED = "preempted"
    RESUMED = "resumed"
    PAUSED = "paused"
    FIRST_WRITE = "first_write"
    WRITE = "write"
    FINISHED = "finished"
    LAST_WRITE = "last_write"
    RELEASED = "released"


class State(StrEnum):
    """Where a request stands. Delivery and release are tracked apart from it."""

    NEW = "new"
    ARRIVED = "arrived"
    RECEIVED = "received"
    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    INVALID = "invalid"
    REJECTED = "rejected"
    FINISHED = "finished"


class Disposition(StrEnum):
    """How a request ended. Every request ends with exactly one."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    SHED = "shed"
    REJECTED = "rejected"
    INVALID = "invalid"
    ERROR = "error"
    LOST = "lost"


ANSWERS = frozenset({Disposition.STOP, Disposition.LENGTH})
"""Ends of a sequence whose text is a whole answer."""

REFUSED = frozenset({Disposition.REJECTED, Disposition.SHED})
"""Ends of what was turned away, before or while it waited."""
BROKEN = frozenset({Disposition.DEADLINE, Disposition.ERROR, Disposition.LOST})
"""Ends of what was taken and got no whole answer, though its client waited for it."""


class Delivery(StrEnum):
    """How much of the answer the client was handed."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    NONE = "none"


class AnswerPart(StrEnum):
    """What a token belongs to, where its engine tells them apart."""

    REASONING = "reasoning"
    ANSWER = "answer"


class Observability(StrEnum):
    """How a value came to be known. Every surface repeats this word instead of inventing a time."""

    OBSERVED = "observed"
    INFERRED = "inferred"
    UNOBSERVABLE = "unobservable"


TERMINAL_STATES = frozenset({State.INVALID, State.REJECTED, State.FINISHED})

# (state, event) -> next state. What is not listed here cannot happen.
TRANSITIONS: dict[tuple[State, EventKind], State] = {
    (State.NEW, EventKind.ARRIVED): State.ARRIVED,
    (State.ARRIVED, EventKind.RECEIVED): State.RECEIVED,
    (State.ARRIVED, EventKind.INVALID): State.INVALID,
    (State.RECEIVED, EventKind.INVALID): State.INVALID,
    (State.RECEIVED, EventKind.ADMITTED): State.QUEUED,
    (State.RECEIVED, EventKind.REJECTED): State.REJECTED,
    (State.QUEUED, EventKind.SCHEDULED): State.PREFILL,
    (State.QUEUED, EventKind.FINISHED): State.FINISHED,
    (State.PREFILL, EventKind.SCHEDULED): State.PREFILL,  # a second attempt, on another replica
    (State.PREFILL, EventKind.PREFILL_CHUNK): State.PREFILL,
    (State.PREFILL, EventKind.FIRST_TOKEN): State.DECODE,
    (State.PREFILL, EventKind.FINISHED): State.FINISHED,
    (State.DECODE, EventKind.FIRST_TOKEN): State.DECODE,  # of a further sequence
    (State.DECODE, EventKind.PREFILL_CHUNK): State.DECODE,  # recomputation after a preemption
    (State.DECODE, EventKind.TOKENS): State.DECODE,
    (State.DECODE, EventKind.FINISHED): State.FINISHED,
    **{
        (state, kind): state
        for state in (State.PREFILL, State.DECODE)
        for kind in (EventKind.PREEMPTED, EventKind.RESUMED, EventKind.PAUSED)
    },
}

# Events of delivery and release do not move the state; these are the states they may occur in.
_DELIVERY_STATES = frozenset({State.PREFILL, State.DECODE}) | TERMINAL_STATES
_DELIVERY_EVENTS = frozenset({EventKind.FIRST_WRITE, EventKind.WRITE, EventKind.LAST_WRITE})
_SEQUENCE_EVENTS = frozenset({EventKind.FIRST_TOKEN, EventKind.TOKENS, EventKind.FINISHED})
_PACE_EVENTS = frozenset({EventKind.TOKENS, EventKind.WRITE})


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One thing that happened to a request.

    `at` is in seconds since arrival, on the gateway's clock. `at_error` bounds, in
    seconds, how much later than `at` it may really have happened (the transit that
    an engine's own clock hides). A field that does not belong to the kind is None.

    A long answer has thousands of them: made at the cost of a tuple, not looked at by the
    garbage collector (it holds nothing that could hold it), and written without what says
    nothing.
    """

    kind: EventKind
    at: float
    at_error: float = 0.0
    attempt: int = 0
    sequence: int = 0
    observability: Observability = Observability.OBSERVED
    num_tokens: int | None = None
    """RECEIVED: prompt tokens. PREFILL_CHUNK: tokens computed. TOKENS: tokens selected.
    WRITE, FIRST_WRITE: tokens whose text the fragment completes."""
    num_cached_tokens: int | None = None
    """PREFILL_CHUNK: prompt tokens that were reused instead of computed."""
    replica_id: str | None = None
    disposition: Disposition | None = None
    delivery: Delivery | None = None
    reason: str | None = None
    """REJECTED, INVALID, FINISHED, PREEMPTED, PAUSED, RELEASED (why it was deferred), LAST_WRITE
    (why the gateway gave the client up)."""
    waited_seconds: float | None = None
    """WRITE, LAST_WRITE: how long the client made the gateway wait."""
    begins: AnswerPart | None = None
    """FIRST_TOKEN, FIRST_WRITE: reasoning, where they bring that alone. TOKENS, WRITE: the answer,
    where they are the first to bring some of it after that. Otherwise nothing begins with them, but
    for the first ones, with which the answer begins."""


CLIENT_LEFT = "the client left"
"""The reason of a cancelled request whose client hung up; another says who cut it off, and why."""


def settle_error(event: Event, seconds: float) -> None:
    """Say how far off `event.at` may be: nobody knows before the event's attempt has ended.

    For whoever records the event, before anybody has read it. In place: a long answer has
    thousands of events, and a copy of each would hold the event loop for a tenth of a second.
    """
    msgspec.structs.force_setattr(event, "at_error", seconds)


class LifecycleError(Exception):
    """An event that cannot follow what came before it: a bug in the caller, never bad input."""

    def __init__(self, request_id: str, state: State, event: Event, why: str) -> None:
        super().__init__(
            f"request {request_id}: event {event.kind} at {event.at:.6f} s "
            f"cannot follow state {state}: {why}"
        )
        self.request_id = request_id
        self.state = state
        self.event = event


@dataclass(slots=True)
class Lifecycle:
    """Collects the events of one request and refuses those that cannot follow.

    One lives in the gateway for each request; only `apply` changes it. `num_sequences`
    is how many sequences must finish before the request is finished.
    """

    request_id: str
    arrived_at_unix_ns: int
    num_sequences: int = 1
    state: State = State.NEW
    attempt: int = 0
    disposition: Disposition | None = None
    delivery: Delivery | None = None
    is_released: bool = False
    events: list[Event] = field(default_factory=list)
    _has_written: bool = False
    _started_sequences: set[int] = field(default_factory=set)
    _finished_sequences: set[int] = field(default_factory=set)

    @property
    def is_terminal(self) -> bool:
        """The disposition is decided; only delivery and release may follow."""
        return self.state in TERMINAL_STATES

    @property
    def is_delivered(self) -> bool:
        """`last_write` was seen: nothing more goes to the client."""
        return self.delivery is not None

    def is_last(self, sequence: int) -> bool:
        """With the end of `sequence` all have ended."""
        return len(self._finished_sequences | {sequence}) == self.num_sequences

    @property
    def was_scheduled(self) -> bool:
        """Engine work began, so a release must follow (invariant 3)."""
        return any(event.kind is EventKind.SCHEDULED for event in self.events)

    def expect_sequences(self, num_sequences: int) -> None:
        """How many sequences the caller asks for, known once its body is read.

        Raises ValueError below one, and when it is too late to say so.
        """
        if num_sequences < 1 or self.state is not State.ARRIVED:
            raise ValueError(
                f"request {self.request_id} cannot have {num_sequences} sequences "
                f"in state {self.state}"
            )
        self.num_sequences = num_sequences

    def apply(self, event: Event) -> None:
        """Record `event` and move the state.

        Raises LifecycleError, and changes nothing, when the event cannot follow.
        """
        why = self._why_not(event)
        if why is not None:
            raise LifecycleError(self.request_id, self.state, event, why)
        self.events.append(event)
        if event.attempt > self.attempt:
            self.attempt = event.attempt
        if event.kind not in _PACE_EVENTS:  # those move nothing, and are nearly all
            self._follow(event)

    def _follow(self, event: Event) -> None:
        match event.kind:
            case EventKind.FIRST_TOKEN:
                self._started_sequences.add(event.sequence)
            case EventKind.FIRST_WRITE:
                self._has_written = True
            case EventKind.FINISHED:
                if event.disposition in ANSWERS:
                    self._finished_sequences.add(event.sequence)
                    if len(self._finished_sequences) < self.num_sequences:
                        return
                self.disposition = event.disposition
            case EventKind.INVALID:
                self.disposition = Disposition.INVALID
            case EventKind.REJECTED:
                self.disposition = Disposition.REJECTED
            case EventKind.LAST_WRITE:
                self.delivery = event.delivery
            case EventKind.RELEASED:
                self.is_released = True
        self.state = TRANSITIONS.get((self.state, event.kind), self.state)

    def _why_not(self, event: Event) -> str | None:
        """Why it cannot follow; None: it can."""
        kind = event.kind
        if not 0 <= event.at < math.inf:
            return "its time is no time at or after the arrival"
        if kind in _DELIVERY_EVENTS:
            return self._why_not_delivery(event)
        if kind is EventKind.RELEASED:
            if self.state is not State.FINISHED:
                return "only a finished request can be released"
            return "it was released already" if self.is_released else None
        if kind in _SEQUENCE_EVENTS and (why := self._why_not_sequence(event)):
            return why
        return None if (self.state, kind) in TRANSITIONS else "there is no such transition"

    def _why_not_delivery(self, event: Event) -> str | None:
        """Invariant 6: nothing follows the last write, and what it says fits what was written."""
        if self.state not in _DELIVERY_STATES:
            return "nothing can be written yet"
        if self.is_delivered:
            return "delivery is closed"
        if event.kind is not EventKind.LAST_WRITE:
            if self._has_written is (event.kind is EventKind.FIRST_WRITE):
                return "the first write comes once, and before the others"
            return None
        if event.delivery is None:
            return "it says not how much was delivered"
        if self._has_written is (event.delivery is Delivery.NONE):
            return f"{event.delivery} contradicts what was written"
        if event.delivery is Delivery.COMPLETE and not self.is_terminal:
            return "an answer is not complete before its request has ended"
        return None

    def _why_not_sequence(self, event: Event) -> str | None:
        """A sequence starts once, ends once, and selects nothing after its end."""
        if event.kind is EventKind.FINISHED and event.disposition is None:
            return "it carries no disposition"
        if not 0 <= event.sequence < self.num_sequences:
            return f"there are {self.num_sequences} sequences, and it is of number {event.sequence}"
        is_whole = event.kind is EventKind.FINISHED and event.disposition not in ANSWERS
        if event.sequence in self._finished_sequences and not is_whole:
            return f"sequence {event.sequence} finished already"
        if event.kind is EventKind.FIRST_TOKEN and event.sequence in self._started_sequences:
            return f"sequence {event.sequence} has its first token already"
        return None


def find_event(events: "tuple[Event, ...] | list[Event]", kind: EventKind) -> Event | None:
    """The first event of `kind`, or None."""
    return next((event for event in events if event.kind is kind), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Every request of one gateway process, at one moment, each in exactly one place.

    Invariant 5: arrived = invalid + undecided + rejected + admitted, and
    admitted = active + finished.
    """

    arrived: int
    invalid: int
    undecided: int
    rejected: int
    admitted: int
    active: int
    finished: int

    def check_integrity(self) -> None:
        """Raises AssertionError with both sums when a request is missing or counted twice."""
        decided = self.invalid + self.undecided + self.rejected + self.admitted
        if self.arrived != decided:
            raise AssertionError(
                f"arrived {self.arrived} != {decided} = invalid {self.invalid} + undecided "
                f"{self.undecided} + rejected {self.rejected} + admitted {self.admitted}"
            )
        if self.admitted != self.active + self.finished:
            raise AssertionError(
                f"admitted {self.admitted} != active {self.active} + finished {self.finished}"
            )
