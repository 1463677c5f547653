"""What launchers show of replicas, and what becomes of those that nobody here knew."""

from collections.abc import Set

import structlog

from controlplane.hooks import ReplicaObservation
from controlplane.operator.attached import ATTACHED_LAUNCHERS, AttachedEndpoints
from controlplane.operator.desired import spec_digest
from controlplane.operator.faults import Faults
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.roster import Roster

_log = structlog.get_logger(__name__)


class Sight:
    """Belongs to one reconciler, and to its thread."""

    def __init__(
        self,
        plugins: InstalledPlugins,
        attached: AttachedEndpoints,
        roster: Roster,
        faults: Faults,
    ) -> None:
        self._plugins = plugins
        self._attached = attached
        self._roster = roster
        self._faults = faults

    def observe(self, launchers: Set[str]) -> dict[str, ReplicaObservation]:
        """By replica id. What a launcher that cannot say runs is absent, and noted as a fault."""
        found = {each.spec.replica_id: each for each in self._attached.observe()}
        for name in sorted(launchers - ATTACHED_LAUNCHERS):
            for observation in self._ask(name):
                found[observation.spec.replica_id] = observation
                if self._roster.find(observation.spec.replica_id) is None:
                    self._adopt_unknown(observation, name)
        return found

    def _ask(self, launcher: str) -> list[ReplicaObservation]:
        observations: list[ReplicaObservation] = []
        with self._faults.of_launcher(launcher):
            observations += self._plugins.get_launcher(launcher).observe()
        return observations

    def _adopt_unknown(self, observation: ReplicaObservation, launcher: str) -> None:
        """A launcher has a replica that the database does not: the plan decides about it."""
        spec = observation.spec
        if self._roster.was_used(spec.replica_id):
            self._end_remains(observation, launcher)
        else:
            reason = "found running, unknown to the database"
            self._roster.enter(spec, spec_digest(spec), launcher, reason)

    def _end_remains(self, observation: ReplicaObservation, launcher: str) -> None:
        replica_id = observation.spec.replica_id
        with self._faults.of_deployment(observation.spec.deployment, f"remains of {replica_id}"):
            if observation.is_alive:
                _log.warning("ending a process of an ended replica", replica_id=replica_id)
                self._plugins.get_launcher(launcher).stop(replica_id, is_forced=True)
            else:
                self._plugins.get_launcher(launcher).forget(replica_id)
