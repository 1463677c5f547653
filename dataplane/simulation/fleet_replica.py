"""One replica of a simulated fleet: a process that starts, serves, drains, stalls and dies.

What runs inside is a `SimulatedReplica` on the real scheduler. This is what is around it: the
stages of its start, which request each sequence belongs to, and who else is told of its steps.

    start() -> ACQUIRE LOAD COMPILE WARM_UP -> SERVING --drain()--> DRAINING --empty--> STOPPED
                         kill() at any time --------------------------------------------^
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from dataplane.lifecycle import EventKind, State
from dataplane.scheduling.bounds import Refusal, SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.cold_start import ColdStart, StartStage
from dataplane.simulation.cost import CostModel
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.timeline import Timeline

if TYPE_CHECKING:
    from dataplane.simulation.phased_replicas import PhasedReplicas


class ReplicaState(StrEnum):
    """Where a replica stands."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    """It takes nothing new."""
    STOPPED = "stopped"


class ReplicaObserver(Protocol):
    """Who is told all that an engine could tell of itself. The time is the timeline's."""

    def submitted(self, sequence: Sequence) -> None: ...
    def refused(self, sequence: Sequence) -> None: ...
    def cancelled(self, sequence: Sequence, asked_at: float) -> None: ...
    def step_began(self, plan: StepPlan) -> None: ...
    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None: ...


class ReplicaKeeper(Protocol):
    """The fleet, as a replica knows it."""

    def replica_changed(self, replica: "FleetReplica", what: str) -> None:
        """It began or ended to serve, or entered a stage of its start."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """What a replica is made of."""

    replica_id: str
    scheduler: SchedulerConfig
    cost: CostModel
    cold_start: ColdStart = field(default_factory=ColdStart)
    starts_at: float | None = None
    """When its start begins; None: it serves from the beginning."""


@dataclass(slots=True)
class ReplicaCounts:
    """What a replica did, over all of its processes."""

    num_requests: int = 0
    num_starts: int = 0
    busy_seconds: float = 0.0
    """In steps."""
    serving_seconds: float = 0.0
    num_steps: int = 0
    num_preemptions: int = 0
    num_prompt_tokens: int = 0
    """Computed, those of recomputation included."""
    num_output_tokens: int = 0
    num_prefix_query_tokens: int = 0
    num_prefix_hit_tokens: int = 0


class FleetReplica:
    """`scheduler_config`, `cost` and `cold_start` may be changed, for the next start; `set_cost`
    changes what steps cost from now on."""

    def __init__(self, spec: ReplicaSpec, timeline: Timeline, keeper: ReplicaKeeper) -> None:
        self.replica_id = spec.replica_id
        self.scheduler_config = spec.scheduler
        self.cost: CostModel = spec.cost
        self.cold_start = spec.cold_start
        self.state = ReplicaState.STOPPED
        self.engine: SimulatedReplica | None = None
        """Of the process that serves; None while there is none."""
        self.observers: list[ReplicaObserver] = []
        """Told of everything, behind the fleet."""
        self.withholds: Callable[[Sequence], bool] | None = None
        """Asked of each cancelled sequence: True, and nobody is ever told of its release."""
        self.phases: PhasedReplicas | None = None
        """Of the fleet; None: a replica does all of a request."""
        self._timeline = timeline
        self._keeper = keeper
        self._requests: dict[int, FleetRequest] = {}
        self._followed: dict[int, FleetRequest] = {}
        self._withheld: set[int] = set()
        self._counts = ReplicaCounts()
        self._began_at = 0.0
        self._serving_since = 0.0
        self._process = 0

    @property
    def is_serving(self) -> bool:
        """It may be sent requests."""
        return self.state is ReplicaState.SERVING

    @property
    def num_requests(self) -> int:
        """What it has and has not released."""
        return len(self._requests)

    def requests(self) -> list[FleetRequest]:
        """What it has and has not released, oldest first."""
        return list(self._requests.values())

    def counts(self) -> ReplicaCounts:
        """Up to now."""
        counts = self._counts
        if self.engine is None:
            return counts
        stats = self.engine.scheduler.stats
        return ReplicaCounts(
            num_requests=counts.num_requests,
            num_starts=counts.num_starts,
            busy_seconds=counts.busy_seconds,
            serving_seconds=counts.serving_seconds + self._timeline.now - self._serving_since,
            num_steps=counts.num_steps + stats.num_steps,
            num_preemptions=counts.num_preemptions + stats.num_preemptions,
            num_prompt_tokens=counts.num_prompt_tokens,
            num_output_tokens=counts.num_output_tokens,
            num_prefix_query_tokens=counts.num_prefix_query_tokens + stats.num_prefix_query_tokens,
            num_prefix_hit_tokens=counts.num_prefix_hit_tokens + stats.num_prefix_hit_tokens,
        )

    # The process.

    def start(self) -> None:
        """Begin a process. One that runs already is left alone."""
        if self.state is not ReplicaState.STOPPED:
            return
        self.state = ReplicaState.STARTING
        self._process += 1
        process = self._process

        def enter(stage: StartStage) -> None:
            if process != self._process:
                return  # it was killed meanwhile
            if stage is StartStage.READY:
                self.serve()
            else:
                self._keeper.replica_changed(self, stage)

        self.cold_start.begin(self._timeline, enter)

    def serve(self) -> None:
        """Take requests from now on, with an empty memory."""
        self.engine = SimulatedReplica(
            self._timeline, Scheduler(self.scheduler_config), self.cost, self
        )
        self._serving_since = self._timeline.now
        self._counts.num_starts += 1
        self.state = ReplicaState.SERVING
        self._keeper.replica_changed(self, "serving")

    def drain(self) -> None:
        """Take nothing new; stop when what is there has ended."""
        if self.state is ReplicaState.STARTING:
            self.kill("it was drained while it started")
        elif self.state is ReplicaState.SERVING:
            self.state = ReplicaState.DRAINING
            self._keeper.replica_changed(self, "draining")
            self._stop_if_drained()

    def kill(self, why: str) -> None:
        """End the process at once: what it had is lost with it."""
        if self.state is ReplicaState.STOPPED:
            return
        lost = self._stop()
        self._keeper.replica_changed(self, why)
        for request in lost:
            if request.handover is not None:
                request.handover.lose_source(self)
            request.gateway.lose_replica(request, self, why)

    def stall(self) -> None:
        """Make no progress until `resume`: the process lives and hears of nothing."""
        if self.engine is not None:
            self.engine.stall()

    def resume(self) -> None:
        """Go on."""
        if self.engine is not None and self.engine.is_stalled:
            self.engine.resume()

    def set_cost(self, cost: CostModel) -> None:
        """What steps that begin from now on take."""
        self.cost = cost
        if self.engine is not None:
            self.engine.cost = cost

    def _stop(self) -> list[FleetRequest]:
        engine, lost = self.engine, list(self._requests.values())
        if engine is not None:
            self._counts = self.counts()
            engine.halt()
        self.engine = None
        self.state = ReplicaState.STOPPED
        self._process += 1
        self._requests.clear()
        self._followed.clear()
        self._withheld.clear()
        return lost

    def _stop_if_drained(self) -> None:
        if self.state is ReplicaState.DRAINING and not self._requests:
            self._stop()
            self._keeper.replica_changed(self, "drained")

    # Requests.

    def submit(self, request: FleetRequest) -> Refusal | None:
        """Take a request, or say why it can never run. Needs a process."""
        engine = self.engine
        assert engine is not None
        call = request.call
        handover = None if self.phases is None else self.phases.prepare(request, self)
        sequence = Sequence(
            request_id=f"{request.number}",
            sequence_id=request.number,
            prompt_token_ids=call.prompt,
            max_output_tokens=(
                request.max_output_tokens if handover is None else handover.max_output_tokens
            ),
            isolation_key=call.caller.tenant,
            script=call.answer,
            num_handed_over_tokens=0 if handover is None else handover.num_selected_tokens,
        )
        for observer in self.observers:
            observer.submitted(sequence)
        request.sequence = sequence
        refusal = engine.submit(sequence)
        if refusal is not None:
            for observer in self.observers:
                observer.refused(sequence)
            return refusal
        self._requests[request.number] = request
        if request.trace is not None or call.caller.client.reading is not None:
            self._followed[request.number] = request
        self._counts.num_requests += 1
        return None

    def cancel(self, request: FleetRequest) -> None:
        """End a request before the next step, and tell its gateway, unless it ends before."""
        if request.handover is not None and request.handover.cancel():
            return
        if self.engine is not None and request.number in self._requests:
            self.engine.cancel(request.number)

    def let_go(self, request: FleetRequest) -> None:
        """Nobody reads the KV of its prompt any more. Needs the process that computed it."""
        assert self.engine is not None
        self._requests.pop(request.number, None)
        self.engine.scheduler.let_go(request.number)
        self.engine.wake()
        self._stop_if_drained()

    def forget(self, request: FleetRequest) -> None:
        """Its gateway waits for its release no more."""
        self._requests.pop(request.number, None)
        self._followed.pop(request.number, None)
        self._stop_if_drained()

    # StepObserver

    def step_began(self, plan: StepPlan) -> None:
        """Tell gateways what left and what begins."""
        now = self._began_at = self._timeline.now
        requests = self._requests
        for sequence in plan.admitted:
            request = requests.get(sequence.sequence_id)
            if request is not None and not sequence.num_handed_over_tokens:
                request.gateway.engine_side.note_scheduled(request, now)
        for sequence in plan.preempted:
            self._note(sequence, EventKind.PREEMPTED, reason="kv blocks")
        for sequence in plan.resumed:
            self._note(sequence, EventKind.RESUMED)
        for refusal in plan.refused:
            request = requests.get(refusal.sequence.sequence_id)
            if request is not None:
                self._counts.num_output_tokens += _num_selected_here(refusal.sequence)
                request.gateway.engine_side.note_failed(request, refusal.reason)
        for observer in self.observers:
            observer.step_began(plan)
        if plan.released:
            self._release(plan.released)

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Tell gateways of first tokens, of the progress that they follow, and of ends."""
        now = self._timeline.now
        counts = self._counts
        counts.busy_seconds += now - self._began_at
        requests = self._requests
        if plan.num_prompt_tokens:
            counts.num_prompt_tokens += plan.num_prompt_tokens
            for chunk in plan.prefill_chunks:
                request = requests.get(chunk.sequence.sequence_id)
                if request is None or request.state is State.FINISHED:
                    continue
                if request.trace is not None:
                    request.trace.note(
                        EventKind.PREFILL_CHUNK,
                        now,
                        num_tokens=chunk.num_tokens,
                        num_cached_tokens=chunk.num_cached_tokens,
                        replica_id=self.replica_id,
                    )
                if chunk.selects_token and request.state is State.PREFILL:
                    request.gateway.engine_side.note_first_token(request, now)
        if self._followed:
            self._follow()
        for observer in self.observers:
            observer.step_ended(plan, complete)
        for sequence in complete:
            request = requests.get(sequence.sequence_id)
            if request is not None:
                counts.num_output_tokens += _num_selected_here(sequence)
                if self._followed:
                    self._followed.pop(sequence.sequence_id, None)
                if request.handover is not None and request.handover.begin(now):
                    continue
                request.gateway.engine_side.note_complete(request, now)

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """Tell its gateway, where that waits for it still."""
        for observer in self.observers:
            observer.cancelled(sequence, asked_at)
        if self.withholds is not None and self.withholds(sequence):
            self._withheld.add(sequence.sequence_id)
        self._counts.num_output_tokens += _num_selected_here(sequence)
        request = self._requests.get(sequence.sequence_id)
        if request is not None:
            self._followed.pop(sequence.sequence_id, None)
            request.gateway.engine_side.note_cancelled(request)

    def _follow(self) -> None:
        for request in list(self._followed.values()):
            sequence = request.sequence
            if sequence is not None and sequence.num_output_tokens > request.num_output_tokens:
                request.gateway.engine_side.note_tokens(request, sequence.num_output_tokens)

    def _note(self, sequence: Sequence, kind: EventKind, reason: str | None = None) -> None:
        request = self._requests.get(sequence.sequence_id)
        if request is None:
            return
        request.num_preemptions += kind is EventKind.PREEMPTED
        if request.trace is not None:
            request.trace.note(kind, self._timeline.now, reason=reason, replica_id=self.replica_id)

    def _release(self, released: Iterable[Sequence]) -> None:
        requests = self._requests
        for sequence in released:
            sequence_id = sequence.sequence_id
            if sequence_id in self._withheld:
                continue
            request = requests.pop(sequence_id, None)
            if request is not None:
                request.gateway.engine_side.note_released(request)
        self._stop_if_drained()


def _num_selected_here(sequence: Sequence) -> int:
    return sequence.num_output_tokens - sequence.num_handed_over_tokens
