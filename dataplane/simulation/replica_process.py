"""One process of a simulated replica, from when it serves until it stops.

What runs inside is a `SimulatedReplica` on the real scheduler. Here is whose each sequence is, and
who is told of it: the gateway of its request first, and then whoever looks on.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from dataplane.lifecycle import EventKind, State
from dataplane.scheduling.bounds import Refusal
from dataplane.scheduling.scheduler import Scheduler
from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.handover import Stage
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.replica_counts import ReplicaCounts
from dataplane.simulation.sequence_group import SequenceGroup
from dataplane.simulation.timeline import Timeline

if TYPE_CHECKING:
    from dataplane.simulation.fleet_replica import FleetReplica


class ReplicaObserver(Protocol):
    """Who is told all that an engine could tell of itself. The time is the timeline's."""

    def submitted(self, sequence: Sequence) -> None: ...
    def refused(self, sequence: Sequence) -> None: ...
    def cancelled(self, sequence: Sequence, asked_at: float) -> None: ...
    def dropped(self, sequence: Sequence) -> None: ...
    def step_began(self, plan: StepPlan) -> None: ...
    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None: ...


class _Followed:
    """A sequence of which every token is told; the first one is by itself."""

    __slots__ = ("num_told", "sequence")

    def __init__(self, sequence: Sequence) -> None:
        self.sequence = sequence
        self.num_told = 1


class ReplicaProcess:
    """Runs the requests that `replica` is sent; a StepObserver of its engine."""

    def __init__(self, replica: "FleetReplica", timeline: Timeline) -> None:
        self.engine = SimulatedReplica(
            timeline, Scheduler(replica.scheduler_config), replica.cost, self
        )
        self.requests: dict[int, FleetRequest] = {}
        """Those that are not released, by sequence."""
        self._replica = replica
        self._timeline = timeline
        self._followed: dict[int, _Followed] = {}
        """Those of which every token is told, by sequence."""
        self._handed_over: list[FleetRequest] = []
        """Of several answers, that make their first step here: their KV is in blocks with it."""
        self._withheld: set[int] = set()
        self._counts = ReplicaCounts(num_starts=1)
        self._serving_since = timeline.now
        self._began_at = 0.0

    def counts(self) -> ReplicaCounts:
        """Up to now."""
        stats = self.engine.scheduler.stats
        requests = dict.fromkeys(self.requests.values())
        running = [s for each in requests for s in _sequences_of(each) if not s.is_finished]
        return replace(
            self._counts,
            num_output_tokens=self._counts.num_output_tokens + sum(map(_num_selected, running)),
            serving_seconds=self._timeline.now - self._serving_since,
            num_steps=stats.num_steps,
            num_preemptions=stats.num_preemptions,
            num_prefix_query_tokens=stats.num_prefix_query_tokens,
            num_prefix_hit_tokens=stats.num_prefix_hit_tokens,
        )

    # What it is asked for.

    def submit(self, request: FleetRequest) -> Refusal | None:
        """Take a request, or say why it can never run."""
        request.sequence = sequence = self._make(request)
        observers = self._replica.observers
        for observer in observers:
            observer.submitted(sequence)
        refusal = self.engine.submit(sequence)
        if refusal is not None:
            for observer in observers:
                observer.refused(sequence)
            return refusal
        self._take(request, sequence)
        self._counts.num_requests += 1
        if request.call.further_answers and not self._goes_on_elsewhere(request):
            request.group = SequenceGroup(sequence, len(request.call.further_answers))
            if sequence.num_handed_over_tokens and request.first_token_at is not None:
                request.group.begin(sequence, request.first_token_at)
        return None

    def _goes_on_elsewhere(self, request: FleetRequest) -> bool:
        """Its prompt alone is computed here; what follows does so on the decode replica."""
        return request.handover is not None and request.handover.stage is Stage.PREFILL

    def _take(self, request: FleetRequest, sequence: Sequence) -> None:
        self.requests[sequence.sequence_id] = request
        if request.trace is not None or request.call.caller.client.reading is not None:
            self._followed[sequence.sequence_id] = _Followed(sequence)

    def _make(self, request: FleetRequest) -> Sequence:
        call, phases = request.call, self._replica.phases
        handover = None if phases is None else phases.prepare(request, self._replica)
        return Sequence(
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

    def cancel(self, request: FleetRequest) -> None:
        """End a request before the next step, unless it ends before, or is here no more."""
        group = request.group
        if group is None:
            if request.number in self.requests:
                self.engine.cancel(request.number)
            return
        group.is_cancelled = True
        for sequence in group.sequences:
            if sequence.sequence_id in self.requests:
                self.engine.cancel(sequence.sequence_id)

    def let_go(self, request: FleetRequest) -> None:
        """Nobody reads the KV of its prompt any more."""
        self.requests.pop(request.number, None)
        self.engine.scheduler.let_go(request.number)
        self.engine.wake()

    def forget(self, request: FleetRequest) -> None:
        """Its gateway waits for its release no more."""
        for sequence in _sequences_of(request):
            self.requests.pop(sequence.sequence_id, None)
            self._followed.pop(sequence.sequence_id, None)

    # What its engine tells: a StepObserver.

    def step_began(self, plan: StepPlan) -> None:
        """Tell gateways what left and what begins."""
        now = self._began_at = self._timeline.now
        requests = self.requests
        for sequence in plan.admitted:
            request = requests.get(sequence.sequence_id)
            if request is None:
                continue
            if sequence.num_handed_over_tokens:
                self._note_pause(sequence, EventKind.RESUMED)
                if request.group is not None:
                    self._handed_over.append(request)
            elif sequence.index == 0:  # work on a request begins once
                request.gateway.engine_side.note_scheduled(request, now)
        for sequence in plan.preempted:
            self._note_pause(sequence, EventKind.PREEMPTED, reason="kv blocks")
        for sequence in plan.resumed:
            self._note_pause(sequence, EventKind.RESUMED)
        dropped: list[Sequence] = []
        if plan.refused:
            dropped = [each for refusal in plan.refused for each in self._note_refused(refusal)]
        for observer in self._replica.observers:
            observer.step_began(plan)
            for sequence in dropped:
                observer.dropped(sequence)
        if plan.released:
            self._release(plan.released)

    def step_ended(self, plan: StepPlan, complete: Iterable[Sequence]) -> None:
        """Tell gateways of first tokens, of the progress that they follow, and of ends."""
        now = self._timeline.now
        self._counts.busy_seconds += now - self._began_at
        if plan.num_prompt_tokens:
            self._counts.num_prompt_tokens += plan.num_prompt_tokens
            self._note_chunks(plan, now)
        if self._handed_over:
            handed_over, self._handed_over = self._handed_over, []
            for request in handed_over:
                self._add_followers(request)
        if self._followed:
            self._note_progress()
        for observer in self._replica.observers:
            observer.step_ended(plan, complete)
        for sequence in complete:
            self._note_complete(sequence, now)

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """Tell its gateway, where that waits for it still."""
        replica = self._replica
        for observer in replica.observers:
            observer.cancelled(sequence, asked_at)
        if replica.withholds is not None and replica.withholds(sequence):
            self._withheld.add(sequence.sequence_id)
        self._count_output(sequence)
        request = self.requests.get(sequence.sequence_id)
        if request is not None:
            self._followed.pop(sequence.sequence_id, None)
            if request.group is not None:
                request.group.num_following = 0
            request.gateway.engine_side.note_cancelled(request)

    def _note_pause(self, sequence: Sequence, kind: EventKind, reason: str | None = None) -> None:
        request = self.requests.get(sequence.sequence_id)
        if request is None:
            return
        request.num_preemptions += kind is EventKind.PREEMPTED
        if request.trace is not None:
            now, replica_id = self._timeline.now, self._replica.replica_id
            request.trace.note(kind, now, reason=reason, replica_id=replica_id)

    def _note_refused(self, refusal: Refusal) -> list[Sequence]:
        """Its request fails; the sequences that end with it."""
        self._count_output(refusal.sequence)
        request = self.requests.get(refusal.sequence.sequence_id)
        if request is None:
            return []
        self._followed.pop(refusal.sequence.sequence_id, None)
        dropped = [] if request.group is None else self._drop_others(request.group)
        request.gateway.engine_side.note_failed(request, refusal.reason)
        return dropped

    def _drop_others(self, group: SequenceGroup) -> list[Sequence]:
        """An answer that cannot be completed is none: the others end at once, as in an engine
        (see `dataplane.host.step_outcome`), and not with the step that begins."""
        group.num_following = 0
        dropped = [each for each in group.sequences if self.engine.drop(each.sequence_id)]
        for sequence in dropped:
            self._count_output(sequence)
            self._followed.pop(sequence.sequence_id, None)
        return dropped

    def _note_chunks(self, plan: StepPlan, now: float) -> None:
        requests = self.requests
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
                    replica_id=self._replica.replica_id,
                    sequence=chunk.sequence.index,
                )
            if not chunk.selects_token:
                continue
            if request.group is not None:
                self._note_token_of_group(request, request.group, chunk.sequence, now)
            elif request.state is State.PREFILL:
                request.gateway.engine_side.note_first_token(request, now)

    def _note_token_of_group(
        self, request: FleetRequest, group: SequenceGroup, sequence: Sequence, now: float
    ) -> None:
        if sequence.num_output_tokens > 1:
            return  # it caught up after a preemption
        group.begin(sequence, now)
        if sequence.index:
            request.gateway.engine_side.note_further_first_token(request, sequence.index, now)
            return
        request.gateway.engine_side.note_first_token(request, now)
        self._add_followers(request)

    def _add_followers(self, request: FleetRequest) -> None:
        """The prompt has KV here, with the step that ended just now."""
        group = request.group
        if group is None:
            return
        for follower in group.followers(request.call.further_answers):
            self._add_follower(request, group, follower)

    def _add_follower(
        self, request: FleetRequest, group: SequenceGroup, follower: Sequence
    ) -> None:
        for observer in self._replica.observers:
            observer.submitted(follower)
        if (refusal := self.engine.submit_follower(follower)) is not None:
            raise AssertionError(f"what the first sequence may, a follower may: {refusal}")
        self._take(request, follower)
        if group.is_cancelled:
            self.engine.cancel(follower.sequence_id)

    def _note_progress(self) -> None:
        for followed in list(self._followed.values()):
            sequence = followed.sequence
            num_new = sequence.num_output_tokens - followed.num_told
            if num_new > 0:
                followed.num_told += num_new
                request = self.requests[sequence.sequence_id]
                if request.state is not State.FINISHED:
                    request.gateway.engine_side.note_tokens(request, num_new, sequence.index)

    def _note_complete(self, sequence: Sequence, now: float) -> None:
        self._count_output(sequence)
        request = self.requests.get(sequence.sequence_id)
        if request is None:
            return
        if self._followed:
            self._followed.pop(sequence.sequence_id, None)
        if request.group is not None:
            self._note_complete_of_group(request, request.group, sequence, now)
        elif request.handover is None or not request.handover.begin(now):
            request.gateway.engine_side.note_complete(request, now)

    def _note_complete_of_group(
        self, request: FleetRequest, group: SequenceGroup, sequence: Sequence, now: float
    ) -> None:
        engine_side = request.gateway.engine_side
        if group.end(sequence, now):
            engine_side.note_complete(request, now, sequence.index)
        else:
            engine_side.note_sequence_complete(request, sequence.index, now)

    def _release(self, released: Iterable[Sequence]) -> None:
        requests = self.requests
        for sequence in released:
            sequence_id = sequence.sequence_id
            if sequence_id in self._withheld:
                continue
            request = requests.pop(sequence_id, None)
            if request is None or (request.group is not None and not request.group.release_one()):
                continue
            request.gateway.engine_side.note_released(request)
        self._replica.stop_if_drained()

    def _count_output(self, sequence: Sequence) -> None:
        """It has ended, whether its gateway waits for it still or not."""
        self._counts.num_output_tokens += (
            sequence.num_output_tokens - sequence.num_handed_over_tokens
        )


def _sequences_of(request: FleetRequest) -> list[Sequence]:
    """Of its present attempt."""
    if request.group is not None:
        return request.group.sequences
    return [] if request.sequence is None else [request.sequence]


def _num_selected(sequence: Sequence) -> int:
    """Tokens that it selected in this process."""
    return sequence.num_output_tokens - sequence.num_handed_over_tokens
