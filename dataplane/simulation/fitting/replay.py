"""Traffic once more, on one simulated replica behind the slots that a gateway grants.

For comparing a fit with what was measured: the same arrivals and lengths, the engine's own
scheduler and bounds, the gateway's own queue, and times from a `CostModel` and the measured
overheads. What comes out are the events that a real gateway records of each request.
"""

import functools
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dataplane.lifecycle import Delivery, Disposition, Event, EventKind
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease
from dataplane.record import RequestRecord
from dataplane.scheduling.scheduler import Scheduler, SchedulerConfig
from dataplane.scheduling.sequence import Sequence as TokenSequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cost import CostModel
from dataplane.simulation.distributions import MedianAndTail
from dataplane.simulation.fitting.document import Overheads, Spread
from dataplane.simulation.random_streams import random_stream
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.timeline import Timeline

REPLICA_ID = "simulated"
_CLASS = ClassPolicy(name="all")
_PROMPTS_APART = 2**20
"""Between the token ids of two prompts: none is a prefix of another."""


@dataclass(frozen=True, slots=True)
class ReplayedRequest:
    """One that arrives `at` seconds after the beginning."""

    at: float
    num_prompt_tokens: int
    num_output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaBounds:
    """What the replica and the gateway before it were configured to."""

    scheduler: SchedulerConfig
    num_slots: int
    """Requests that the gateway gives the replica at once."""


def requests_of(records: Iterable[RequestRecord]) -> list[ReplayedRequest]:
    """The arrivals of records that were answered whole, in order; times from the first."""
    answered = [r for r in records if r.delivery is Delivery.COMPLETE and r.num_prompt_tokens]
    answered.sort(key=lambda record: record.arrived_at_unix_ns)
    return [
        ReplayedRequest(
            at=(record.arrived_at_unix_ns - answered[0].arrived_at_unix_ns) / 1e9,
            num_prompt_tokens=record.num_prompt_tokens or 0,
            num_output_tokens=record.num_output_tokens or 1,
        )
        for record in answered
    ]


def replay(
    requests: Sequence[ReplayedRequest],
    bounds: ReplicaBounds,
    cost: CostModel,
    overheads: Overheads,
    seed: int,
) -> list[tuple[Event, ...]]:
    """The events of each request, in the order of `requests`.

    Raises ValueError for a request that can never run under `bounds`.
    """
    timeline = Timeline()
    gateway = _Gateway(timeline, bounds, overheads, random_stream(seed, "overheads"))
    replica = SimulatedReplica(timeline, Scheduler(bounds.scheduler), cost, gateway)
    gateway.replica = replica
    lives = [_Life(number, request) for number, request in enumerate(requests)]
    for life in lives:
        timeline.at(life.request.at, functools.partial(gateway.arrive, life))
    timeline.run()
    return [tuple(sorted(life.events, key=lambda event: event.at)) for life in lives]


@dataclass(slots=True, eq=False)
class _Life:
    """One request on its way."""

    number: int
    request: ReplayedRequest
    events: list[Event] = field(default_factory=list)
    lease: Lease | None = None
    first_write_at: float = 0.0


class _Gateway:
    """Admits, queues, submits and writes; watches the replica's steps."""

    replica: SimulatedReplica

    def __init__(
        self, timeline: Timeline, bounds: ReplicaBounds, overheads: Overheads, rng: random.Random
    ) -> None:
        self._timeline = timeline
        self._overheads = overheads
        self._rng = rng
        self._queue = DeploymentQueue(clock=timeline, unserved_seconds=math.inf)
        self._queue.set_replicas({REPLICA_ID: bounds.num_slots})
        self._running: dict[int, _Life] = {}
        # A step's time holds what lies between two steps, and before an idle engine's first
        # step nothing does.
        gap = overheads.between_steps
        self._gap = 0.0 if gap is None else gap.median

    def arrive(self, life: _Life) -> None:
        """The first byte is there."""
        self._tell(life, EventKind.ARRIVED)
        delay = self._draw(self._overheads.arrival_to_admission)
        self._timeline.after(delay, lambda: self._admit(life))

    def _admit(self, life: _Life) -> None:
        self._tell(life, EventKind.RECEIVED, num_tokens=life.request.num_prompt_tokens)
        self._tell(life, EventKind.ADMITTED)
        ticket = self._queue.enter(_CLASS)
        ticket.on_leaving(lambda outcome: self._leave_queue(life, outcome))

    def _leave_queue(self, life: _Life, outcome: Lease | Departure) -> None:
        assert isinstance(outcome, Lease)  # the class has no deadline
        life.lease = outcome
        delay = max(0.0, self._draw(self._overheads.admission_to_idle_engine) - self._gap)
        self._timeline.after(delay, lambda: self._submit(life))

    def _submit(self, life: _Life) -> None:
        request = life.request
        first_id = life.number * _PROMPTS_APART
        sequence = TokenSequence(
            request_id=str(life.number),
            sequence_id=life.number,
            prompt_token_ids=range(first_id, first_id + request.num_prompt_tokens),
            max_output_tokens=request.num_output_tokens,
            script=range(request.num_output_tokens),
        )
        self._running[life.number] = life
        refusal = self.replica.submit(sequence)
        if refusal is not None:
            raise ValueError(f"request {life.number} can never run: {refusal.reason}")

    def step_began(self, plan: StepPlan) -> None:
        """Work on some begins, and slots of others are free."""
        for sequence in plan.released:
            life = self._running.pop(sequence.sequence_id)
            self._tell(life, EventKind.RELEASED)
            assert life.lease is not None
            life.lease.release()
        for refusal in plan.refused:
            raise ValueError(f"request {refusal.sequence.request_id} failed: {refusal.reason}")
        for kind, sequences in (
            (EventKind.PREEMPTED, plan.preempted),
            (EventKind.RESUMED, plan.resumed),
            (EventKind.SCHEDULED, plan.admitted),
        ):
            for sequence in sequences:
                self._tell(self._running[sequence.sequence_id], kind)

    def step_ended(self, plan: StepPlan, complete: Iterable[TokenSequence]) -> None:
        """Chunks are computed, tokens selected, and some have all of theirs."""
        for chunk in plan.chunks:
            life = self._running[chunk.sequence.sequence_id]
            if chunk.is_prefill:
                self._tell(life, EventKind.PREFILL_CHUNK, num_tokens=chunk.num_tokens)
            if chunk.selects_token:
                self._tell_token(life)
        for sequence in complete:
            life = self._running[sequence.sequence_id]
            self._tell(life, EventKind.FINISHED, disposition=Disposition.LENGTH)
            written_at = self._timeline.now + self._draw(self._overheads.finish_to_last_write)
            written_at = max(written_at, life.first_write_at)
            self._tell(life, EventKind.LAST_WRITE, written_at, delivery=Delivery.COMPLETE)

    def cancelled(self, sequence: TokenSequence, asked_at: float) -> None:
        """Raises ValueError: what is replayed ran to its end."""
        raise ValueError(f"request {sequence.request_id} was cancelled; nothing here does that")

    def _tell_token(self, life: _Life) -> None:
        if any(event.kind is EventKind.FIRST_TOKEN for event in life.events):
            self._tell(life, EventKind.TOKENS, num_tokens=1)
            return
        self._tell(life, EventKind.FIRST_TOKEN)
        delay = self._draw(self._overheads.selection_to_first_write)
        life.first_write_at = self._timeline.now + delay
        self._tell(life, EventKind.FIRST_WRITE, life.first_write_at, num_tokens=1)

    def _tell(
        self,
        life: _Life,
        kind: EventKind,
        at: float | None = None,
        num_tokens: int | None = None,
        disposition: Disposition | None = None,
        delivery: Delivery | None = None,
    ) -> None:
        life.events.append(
            Event(
                kind=kind,
                at=(self._timeline.now if at is None else at) - life.request.at,
                replica_id=REPLICA_ID,
                num_tokens=num_tokens,
                disposition=disposition,
                delivery=delivery,
            )
        )

    def _draw(self, spread: Spread | None) -> float:
        if spread is None:
            return 0.0
        return MedianAndTail(median=spread.median, p95=spread.p95).draw(self._rng)
