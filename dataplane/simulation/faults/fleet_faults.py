"""Puts the faults of a plan into a fleet, before it runs.

What must be there when a process starts (its blocks, the pace of its start) is set whenever it
changes; what happens at a moment is put on the timeline. The fleet does not know of it.
"""

import copy
from collections.abc import Callable, Mapping
from functools import partial

from dataplane.scheduling.sequence import Sequence
from dataplane.scheduling.step import StepPlan
from dataplane.simulation.faults.memory import FaultyMemory
from dataplane.simulation.faults.plan import FaultPlan
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_replica import FleetReplica, ReplicaSpec, ReplicaState
from dataplane.simulation.phase_split import PhaseSplit
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.speculation import SpeculativeCost
from dataplane.simulation.weights import WeightsOverLink

OutOfMemoryListener = Callable[[FleetReplica, int], None]
"""Is told which replica wanted how many blocks' worth, before it is killed."""
LeakListener = Callable[[FleetReplica, Sequence], None]
"""Is told which sequence of which replica is never released."""


class FleetFaults:
    """What goes wrong in one fleet. Make it before the fleet begins; without faults it is inert."""

    def __init__(self, plan: FaultPlan, fleet: Fleet, restart_seconds: float = 5.0) -> None:
        """A process that died of a fault is started again after `restart_seconds`."""
        self.on_out_of_memory: list[OutOfMemoryListener] = []
        self.on_leak: list[LeakListener] = []
        self._plan = plan
        self._fleet = fleet
        self._restart_seconds = restart_seconds
        if plan:
            self._install()

    def _install(self) -> None:
        fleet, plan = self._fleet, self._plan
        for spec in fleet.scenario.replicas:
            _ReplicaFaults(self, plan, fleet, spec)
        starts = [spec.cold_start for spec in fleet.scenario.replicas]
        # In the order of the replicas, which a set would not keep.
        links = dict.fromkeys(each.link for each in starts if isinstance(each, WeightsOverLink))
        for link in links:
            plan.link(fleet.timeline, link.on(fleet.timeline))
        if fleet.phases is not None:
            plan.link(fleet.timeline, fleet.phases.link)
            for at in plan.split_changes:
                fleet.timeline.at(at, partial(self._split, fleet.phases.plan.split))
        [first, *_] = fleet.gateways
        fleet.sources = [
            plan.calls(
                source,
                fleet.timeline,
                is_told_apart=fleet.scenario.is_prefix_caching,
                class_of=first.class_of,
                until=fleet.scenario.duration,
            )
            for source in fleet.sources
        ]
        if plan.routing_changes:
            fleet.believed_held = self._believe
        for at in plan.routing_changes:
            fleet.timeline.at(at, fleet.tell_replicas)

    def _split(self, planned: PhaseSplit) -> None:
        self._fleet.set_split(self._plan.phase_split(planned, self._fleet.timeline.now))

    def _believe(self, slots: Mapping[str, int | None]) -> Mapping[str, int]:
        return self._plan.believed_held(slots, self._fleet.timeline.now)

    def die(self, replica: FleetReplica, doomed: SimulatedReplica, num_wanted: int) -> None:
        """A process of a replica is out of memory: it ends, and another is started unless the
        replica was to stop anyway. Nothing where something else has ended it meanwhile."""
        if replica.engine is not doomed:
            return
        is_wanted = replica.is_serving
        for told in self.on_out_of_memory:
            told(replica, num_wanted)
        replica.kill("out of memory")
        if is_wanted:
            self._fleet.timeline.after(self._restart_seconds, replica.start)

    def leak(self, replica: FleetReplica, sequence: Sequence) -> None:
        """A cancelled sequence keeps its blocks."""
        for told in self.on_leak:
            told(replica, sequence)


class _ReplicaFaults:
    """Those of one replica, over all of its processes. A MemoryOwner and a ReplicaObserver."""

    def __init__(
        self, faults: FleetFaults, plan: FaultPlan, fleet: Fleet, spec: ReplicaSpec
    ) -> None:
        self._faults = faults
        self._plan = plan
        self._timeline = fleet.timeline
        self._replica = fleet.replicas[spec.replica_id]
        self._spec = spec
        self._memory: FaultyMemory | None = None
        self._set_costs()
        self._set_starts()
        self._set_hangs(fleet)
        if plan.has_memory_faults(spec.replica_id):
            self._replica.observers.append(self)
            self._replica.withholds = self._withhold
            fleet.on_replica.append(self._follow)

    def _set_costs(self) -> None:
        replica_id, cost = self._spec.replica_id, self._spec.cost
        if isinstance(cost, SpeculativeCost):
            cost = copy.copy(cost)  # replicas share one, and a fault may be of one of them
            self._plan.speculation(replica_id, self._timeline, cost)
        self._replica.set_cost(self._plan.cost(replica_id, cost, self._timeline))

    def _set_starts(self) -> None:
        """What the next process starts with, from now on and from each change on."""
        self._plan_start()
        for at in self._plan.start_changes(self._spec.replica_id):
            self._timeline.at(at, self._plan_start)

    def _plan_start(self) -> None:
        now, spec = self._timeline.now, self._spec
        replica_id = spec.replica_id
        self._replica.scheduler_config = self._plan.bounds(replica_id, spec.scheduler, now)
        self._replica.cold_start = self._plan.cold_start(replica_id, spec.cold_start, now)

    def _set_hangs(self, fleet: Fleet) -> None:
        """It stands while any hang lasts, and so does a process that begins within one."""
        changes = self._plan.hang_changes(self._spec.replica_id)
        for at in changes:
            self._timeline.at(at, self._stall_or_resume)
        if changes:
            fleet.on_replica.append(self._stall_within_a_hang)

    def _stall_or_resume(self) -> None:
        if self._plan.is_hung(self._spec.replica_id, self._timeline.now):
            self._replica.stall()
        else:
            self._replica.resume()

    def _stall_within_a_hang(self, replica: FleetReplica, what: str) -> None:
        if replica is self._replica and replica.state is ReplicaState.SERVING:
            self._stall_or_resume()

    def _follow(self, replica: FleetReplica, what: str) -> None:
        """A process begins to serve, or is gone."""
        if replica is not self._replica:
            return
        if replica.state is ReplicaState.SERVING and replica.engine is not None:
            scheduler = replica.engine.scheduler
            self._memory = self._plan.memory(replica.replica_id, self._timeline, scheduler, self)
        elif replica.state is ReplicaState.STOPPED and self._memory is not None:
            self._memory.end()
            self._memory = None

    def _withhold(self, sequence: Sequence) -> bool:
        if self._memory is None or not self._memory.cancelled(sequence):
            return False
        self._faults.leak(self._replica, sequence)
        return True

    # MemoryOwner

    def wake(self) -> None:
        """Blocks came back."""
        if self._replica.engine is not None:
            self._replica.engine.wake()

    def run_out_of_memory(self, num_wanted: int) -> None:
        """Not inside a step of its own: behind what else happens now."""
        doomed = self._replica.engine
        if doomed is not None:
            self._timeline.after(0, partial(self._faults.die, self._replica, doomed, num_wanted))

    # ReplicaObserver

    def submitted(self, sequence: Sequence) -> None:
        """Nothing to do."""

    def refused(self, sequence: Sequence) -> None:
        """Nothing to do."""

    def cancelled(self, sequence: Sequence, asked_at: float) -> None:
        """Nothing to do: `withholds` is asked."""

    def dropped(self, sequence: Sequence) -> None:
        """Nothing to do: it was not cancelled, and does not leak."""

    def step_began(self, plan: StepPlan) -> None:
        """Nothing to do."""

    def step_ended(self, plan: StepPlan, complete: object) -> None:
        """What became free may be missing."""
        if self._memory is not None:
            self._memory.step_ended()
