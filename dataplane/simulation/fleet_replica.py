"""One replica of a simulated fleet: what starts, serves, drains, stalls and dies.

    start() -> ACQUIRE LOAD COMPILE WARM_UP -> SERVING --drain()--> DRAINING --empty--> STOPPED
                         kill() at any time --------------------------------------------^

While it serves or drains it has a process, which runs what it is sent.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from dataplane.scheduling.bounds import Refusal, SchedulerConfig
from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.cold_start import ColdStart, StartStage
from dataplane.simulation.cost import CostModel
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.replica import SimulatedReplica
from dataplane.simulation.replica_counts import ReplicaCounts
from dataplane.simulation.replica_process import ReplicaObserver, ReplicaProcess
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


class FleetReplica:
    """`scheduler_config`, `cost` and `cold_start` may be changed, for the next start; `set_cost`
    changes what steps cost from now on."""

    def __init__(self, spec: ReplicaSpec, timeline: Timeline, keeper: ReplicaKeeper) -> None:
        self.replica_id = spec.replica_id
        self.scheduler_config = spec.scheduler
        self.cost: CostModel = spec.cost
        self.cold_start = spec.cold_start
        self.state = ReplicaState.STOPPED
        self.observers: list[ReplicaObserver] = []
        """Told of everything, behind the fleet."""
        self.withholds: Callable[[Sequence], bool] | None = None
        """Asked of each cancelled sequence: True, and nobody is ever told of its release."""
        self.phases: PhasedReplicas | None = None
        """Of the fleet; None: a replica does all of a request."""
        self._timeline = timeline
        self._keeper = keeper
        self._process: ReplicaProcess | None = None
        self._counts = ReplicaCounts()
        """Of the processes before."""
        self._num_processes = 0

    @property
    def engine(self) -> SimulatedReplica | None:
        """Of the process that serves; None while there is none."""
        return None if self._process is None else self._process.engine

    @property
    def is_serving(self) -> bool:
        """It may be sent requests."""
        return self.state is ReplicaState.SERVING

    @property
    def num_requests(self) -> int:
        """What it has and has not released."""
        return len(self.requests())

    def requests(self) -> list[FleetRequest]:
        """What it has and has not released, oldest first."""
        return [] if self._process is None else list(dict.fromkeys(self._process.requests.values()))

    def counts(self) -> ReplicaCounts:
        """Over all of its processes, up to now."""
        return self._counts if self._process is None else self._counts + self._process.counts()

    # The process.

    def start(self) -> None:
        """Begin a process. One that runs already is left alone."""
        if self.state is not ReplicaState.STOPPED:
            return
        self.state = ReplicaState.STARTING
        self._num_processes += 1
        process = self._num_processes

        def enter(stage: StartStage) -> None:
            if process != self._num_processes:
                return  # it was killed meanwhile
            if stage is StartStage.READY:
                self.serve()
            else:
                self._keeper.replica_changed(self, stage)

        self.cold_start.begin(self._timeline, enter)

    def serve(self) -> None:
        """Take requests from now on, with an empty memory."""
        self._process = ReplicaProcess(self, self._timeline)
        self.state = ReplicaState.SERVING
        self._keeper.replica_changed(self, "serving")

    def drain(self) -> None:
        """Take nothing new; stop when what is there has ended."""
        if self.state is ReplicaState.STARTING:
            self.kill("it was drained while it started")
        elif self.state is ReplicaState.SERVING:
            self.state = ReplicaState.DRAINING
            self._keeper.replica_changed(self, "draining")
            self.stop_if_drained()

    def stop_if_drained(self) -> None:
        """Stop where nothing is left of what it drains; its process asks with each release."""
        process = self._process
        if self.state is ReplicaState.DRAINING and process is not None and not process.requests:
            self._stop()
            self._keeper.replica_changed(self, "drained")

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
        lost, self._counts = self.requests(), self.counts()
        if self.engine is not None:
            self.engine.halt()
        self._process = None
        self.state = ReplicaState.STOPPED
        self._num_processes += 1
        return lost

    # Requests.

    def submit(self, request: FleetRequest) -> Refusal | None:
        """Take a request, or say why it can never run. Needs a process."""
        assert self._process is not None
        return self._process.submit(request)

    def cancel(self, request: FleetRequest) -> None:
        """End a request before the next step, and tell its gateway, unless it ends before."""
        if request.handover is not None and request.handover.cancel():
            return
        if self._process is not None:
            self._process.cancel(request)

    def let_go(self, request: FleetRequest) -> None:
        """Nobody reads the KV of its prompt any more. Needs the process that computed it."""
        assert self._process is not None
        self._process.let_go(request)
        # Behind what else happens now: since phases changed, it may be this one that decodes it.
        self._timeline.after(0, self.stop_if_drained)

    def forget(self, request: FleetRequest) -> None:
        """Its gateway waits for its release no more."""
        if self._process is not None:
            self._process.forget(request)
        self.stop_if_drained()
