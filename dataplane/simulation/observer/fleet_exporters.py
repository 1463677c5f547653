"""An exporter for every replica of a fleet: it follows the processes as they start and end.

It is told of processes, submissions and steps, as the engine of each is, and of nothing else.
"""

from collections.abc import Callable
from collections.abc import Sequence as ReadableSequence

from dataplane.scheduling.sequence import Sequence
from dataplane.simulation.fleet import Fleet
from dataplane.simulation.fleet_replica import FleetReplica, ReplicaState
from dataplane.simulation.observer.dialect import Dialect, EngineIdentity
from dataplane.simulation.observer.exporter import EngineExporter, FamilyFilter
from dataplane.simulation.observer.lines import Sink
from dataplane.simulation.observer.observation import Observation

NANOSECONDS = 10**9
Filters = Callable[[str], ReadableSequence[FamilyFilter]]
"""By replica id: what stands between it and who scrapes it."""


class FleetExporters:
    """Make it before the fleet begins. `dialect_of` says what each replica speaks, by its id."""

    def __init__(
        self,
        fleet: Fleet,
        dialect_of: Callable[[str], Dialect],
        sink: Sink,
        filters_of: Filters = lambda replica_id: (),
    ) -> None:
        self._fleet = fleet
        self._sink = sink
        self._stage_by_replica: dict[str, tuple[str, float]] = {}
        self.by_replica = {
            replica_id: EngineExporter(
                fleet.timeline,
                dialect_of(replica_id),
                EngineIdentity(replica_id=replica_id, deployment=fleet.scenario.name),
                sink,
                anchor_unix=fleet.scenario.starts_at_unix_ns / NANOSECONDS,
                filters=filters_of(replica_id),
            )
            for replica_id in fleet.replicas
        }
        for replica_id, exporter in self.by_replica.items():
            fleet.replicas[replica_id].observers.append(exporter)
        fleet.on_replica.append(self._follow)

    def observe(self, every_seconds: float, until: float) -> None:
        """Scrape every replica every so often. Raises ValueError for an interval below 0.1 s."""
        exporters = list(self.by_replica.values())
        observation = Observation(
            self._fleet.timeline, exporters, self._sink, every_seconds=every_seconds, until=until
        )
        observation.start()

    def ran_out_of_memory(self, replica: FleetReplica, num_wanted: int) -> None:
        """Its process dies of it."""
        self.by_replica[replica.replica_id].ran_out_of_memory(num_wanted)

    def leaked(self, replica: FleetReplica, sequence: Sequence) -> None:
        """It never releases what a cancelled sequence held."""
        self.by_replica[replica.replica_id].leaked(sequence)

    def _follow(self, replica: FleetReplica, what: str) -> None:
        exporter = self.by_replica[replica.replica_id]
        match replica.state:
            case ReplicaState.STARTING:
                self._enter(replica.replica_id, exporter, what)
            case ReplicaState.SERVING if not exporter.is_up and replica.engine is not None:
                self._leave_stage(replica.replica_id, exporter)
                exporter.started(replica.engine.scheduler, replica.cost)
            case ReplicaState.STOPPED:
                self._stage_by_replica.pop(replica.replica_id, None)
                if exporter.is_running:
                    exporter.exited(0 if what == "drained" else -9)

    def _enter(self, replica_id: str, exporter: EngineExporter, stage: str) -> None:
        if replica_id not in self._stage_by_replica:
            exporter.starting()
        self._leave_stage(replica_id, exporter)
        self._stage_by_replica[replica_id] = (str(stage), self._fleet.timeline.now)

    def _leave_stage(self, replica_id: str, exporter: EngineExporter) -> None:
        left = self._stage_by_replica.pop(replica_id, None)
        if left is not None:
            stage, began_at = left
            seconds = self._fleet.timeline.now - began_at
            if seconds > 0:
                exporter.stage_ended(stage, seconds)
