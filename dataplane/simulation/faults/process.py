"""Faults of a replica's process: slow, hung, slow to start."""

from dataclasses import dataclass, replace

from dataplane.simulation.cold_start import ColdStart, StartStage
from dataplane.simulation.faults.fault import ReplicaFault
from dataplane.simulation.faults.pace import Slowdown


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledReplica(ReplicaFault):
    """Steps take 1 + intensity times as long: a hot GPU, a neighbour, a slow host."""

    def slowdown(self) -> Slowdown:
        """What it makes of the pace."""
        return Slowdown(self.at, self.ends_at, 1 / (1 + self.intensity))


@dataclass(frozen=True, slots=True, kw_only=True)
class HungReplica(ReplicaFault):
    """No step ends while it lasts, and the process lives on. Below intensity 1 it creeps."""

    def slowdown(self) -> Slowdown:
        """What it makes of the pace."""
        return Slowdown(self.at, self.ends_at, max(0.0, 1 - self.intensity))

    @property
    def is_complete(self) -> bool:
        """Nothing moves: the step under way does not end either."""
        return self.intensity >= 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowStart(ReplicaFault):
    """A stage of a start that begins while it lasts takes 1 + intensity times as long."""

    stage: StartStage = StartStage.LOAD

    def stretch(self, planned: ColdStart) -> ColdStart:
        """The seconds of each stage. A stage that does not occur is not made up."""
        seconds = getattr(planned, self.stage.value)
        return replace(planned, **{self.stage.value: seconds * (1 + self.intensity)})
