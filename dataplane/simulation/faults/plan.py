"""All faults of one simulation, asked by those whom they concern.

Nobody but the parts of the simulated world asks: an observer is not told that there is a plan.
What no fault concerns is handed back as it was given, so that a run without faults is the very
same run.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.scheduling.scheduler import Scheduler
from dataplane.simulation.call import Call, CallSource
from dataplane.simulation.cold_start import ColdStart
from dataplane.simulation.cost import CostModel
from dataplane.simulation.faults.calls import CallFault, FaultyCalls
from dataplane.simulation.faults.fault import Fault, ReplicaFault
from dataplane.simulation.faults.memory import (
    CancelLeak,
    FaultyMemory,
    MemoryOwner,
    SmallerMemory,
    WorkspaceSpike,
)
from dataplane.simulation.faults.metrics import FaultyMetrics, MetricsFault
from dataplane.simulation.faults.pace import PaceCurve, PacedCost
from dataplane.simulation.faults.placement import (
    DraftDisagreement,
    StickyRouting,
    TransferLimit,
    WrongPhaseSplit,
)
from dataplane.simulation.faults.process import HungReplica, SlowStart, StalledReplica
from dataplane.simulation.link import Link
from dataplane.simulation.phase_split import PhaseSplit
from dataplane.simulation.speculation import SpeculativeCost
from dataplane.simulation.timeline import Timeline

FaultT = TypeVar("FaultT", bound=Fault)
ReplicaFaultT = TypeVar("ReplicaFaultT", bound=ReplicaFault)


class FaultPlan:
    """Faults of intensity or duration 0 are left out at once."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self.faults = tuple(fault for fault in faults if not fault.is_none)

    def __bool__(self) -> bool:
        return bool(self.faults)

    # Replicas.

    def bounds(self, replica_id: str, config: SchedulerConfig, now: float) -> SchedulerConfig:
        """Those of a process that starts now."""
        for fault in self._of_replica(SmallerMemory, replica_id):
            if fault.is_active(now):
                config = fault.shrink(config)
        return config

    def cold_start(self, replica_id: str, planned: ColdStart, now: float) -> ColdStart:
        """The stages of a process that starts now."""
        for fault in self._of_replica(SlowStart, replica_id):
            if fault.is_active(now):
                planned = fault.stretch(planned)
        return planned

    def cost(self, replica_id: str, cost: CostModel, clock: Callable[[], float]) -> CostModel:
        """What its steps take."""
        slowdowns = [
            fault.slowdown()
            for fault in self._of_replica(StalledReplica, replica_id)
            + [hang for hang in self._of_replica(HungReplica, replica_id) if not hang.is_complete]
        ]
        return PacedCost(cost, PaceCurve(slowdowns), clock) if slowdowns else cost

    def is_hung(self, replica_id: str, now: float) -> bool:
        """Whether nothing of it moves."""
        return any(hang.is_active(now) for hang in self._complete_hangs(replica_id))

    def hang_changes(self, replica_id: str) -> list[float]:
        """When `is_hung` may answer otherwise than before."""
        return _changes(self._complete_hangs(replica_id))

    def _complete_hangs(self, replica_id: str) -> list[HungReplica]:
        return [hang for hang in self._of_replica(HungReplica, replica_id) if hang.is_complete]

    def memory(
        self, replica_id: str, timeline: Timeline, scheduler: Scheduler, owner: MemoryOwner
    ) -> FaultyMemory | None:
        """What is done to the memory of a process that starts now."""
        now = timeline.now
        shortages = [f for f in self._of_replica(SmallerMemory, replica_id) if f.at > now]
        spikes = [f for f in self._of_replica(WorkspaceSpike, replica_id) if f.at >= now]
        leaks = self._of_replica(CancelLeak, replica_id)
        if not (shortages or spikes or leaks):
            return None
        return FaultyMemory(timeline, scheduler, owner, shortages, spikes, leaks)

    def has_memory_faults(self, replica_id: str) -> bool:
        """Whether `memory` ever has anything for it."""
        kinds = (SmallerMemory, WorkspaceSpike, CancelLeak)
        return any(self._of_replica(kind, replica_id) for kind in kinds)

    def start_changes(self, replica_id: str) -> list[float]:
        """When `bounds` or `cold_start` answers otherwise than before."""
        return _changes(
            [*self._of_replica(SmallerMemory, replica_id), *self._of_replica(SlowStart, replica_id)]
        )

    def metrics(self, replica_id: str) -> tuple[FaultyMetrics, ...]:
        """What stands between it and who scrapes it."""
        faults = self._of_replica(MetricsFault, replica_id)
        return (FaultyMetrics(faults),) if faults else ()

    def speculation(self, replica_id: str, timeline: Timeline, cost: SpeculativeCost) -> None:
        """Have its drafts accepted less often; what overlaps multiplies."""
        faults, planned = self._of_replica(DraftDisagreement, replica_id), cost.acceptance

        def accept() -> None:
            now = timeline.now
            kept = math.prod(fault.share_kept for fault in faults if fault.is_active(now))
            cost.acceptance = planned * kept

        for at in _changes(faults):
            timeline.at(max(at, timeline.now), accept)

    # What is between replicas, and in front of them.

    def calls(
        self,
        source: CallSource,
        clock: Callable[[], float],
        *,
        is_told_apart: bool = True,
        class_of: Callable[[Call], str | None] | None = None,
        until: float = math.inf,
    ) -> CallSource:
        """What is called, and when; from `until` on nobody asks."""
        faults = self._of(CallFault)
        if not faults:
            return source
        return FaultyCalls(
            source,
            faults,
            clock=clock,
            is_told_apart=is_told_apart,
            class_of=class_of,
            until=until,
        )

    def believed_held(self, slots: Mapping[str, int | None], now: float) -> dict[str, int]:
        """By replica id: slots that a router takes for held, and that are not."""
        held: dict[str, int] = {}
        for fault in self._of(StickyRouting):
            if fault.is_active(now):
                for replica_id, num_slots in fault.believed_held(slots).items():
                    held[replica_id] = max(num_slots, held.get(replica_id, 0))
        return held

    @property
    def routing_changes(self) -> list[float]:
        """When `believed_held` answers otherwise than before."""
        return _changes(self._of(StickyRouting))

    def link(self, timeline: Timeline, link: Link) -> None:
        """Narrow a link."""
        for fault in self._of(TransferLimit):
            fault.install(timeline, link)

    def phase_split(self, planned: PhaseSplit, now: float = 0.0) -> PhaseSplit:
        """The units of each phase."""
        for fault in self._of(WrongPhaseSplit):
            if fault.is_active(now):
                planned = fault.split(planned)
        return planned

    @property
    def split_changes(self) -> list[float]:
        """When `phase_split` answers otherwise than before."""
        return _changes(self._of(WrongPhaseSplit))

    def _of(self, kind: type[FaultT]) -> list[FaultT]:
        return [fault for fault in self.faults if isinstance(fault, kind)]

    def _of_replica(self, kind: type[ReplicaFaultT], replica_id: str) -> list[ReplicaFaultT]:
        return [fault for fault in self._of(kind) if fault.is_of(replica_id)]


def _changes(faults: Iterable[Fault]) -> list[float]:
    """When faults begin and end, in order."""
    times = {time for fault in faults for time in (fault.at, fault.ends_at)}
    return sorted(time for time in times if time < math.inf)
