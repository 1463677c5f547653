"""The replicas that one simulated gateway may use: those that serve, without those it ejected."""

from collections.abc import Mapping

from dataplane.policy import DeploymentPolicy
from dataplane.queueing.queue import DeploymentQueue
from dataplane.simulation.timeline import Timeline


class FleetReplicas:
    """Tells the queue of a gateway, whenever who may be used has changed."""

    def __init__(
        self, queue: DeploymentQueue, timeline: Timeline, deployment: DeploymentPolicy
    ) -> None:
        self._queue = queue
        self._router = queue.router
        self._timeline = timeline
        self._all = frozenset(each.replica_id for each in deployment.replicas)
        self._slots: Mapping[str, int | None] = {}
        self._held: Mapping[str, int] = {}
        self._router.on_change = self._change

    def set(self, slots: Mapping[str, int | None], held_elsewhere: Mapping[str, int]) -> None:
        """Those that serve, their slots, and those that others seem to hold."""
        self._slots, self._held = slots, held_elsewhere
        self._router.set_replicas(self._all, slots.keys())
        self._tell()

    def _change(self) -> None:
        """Somebody was ejected or let back. Where nothing else happens until the next one may come
        back, time has to."""
        due = self._router.ejections.next_change_at
        if due is not None:
            self._timeline.at(max(due, self._router.next_check_at), self._router.check)
        self._tell()

    def _tell(self) -> None:
        usable = self._router.ejections.usable()
        slots = {each: limit for each, limit in self._slots.items() if each in usable}
        self._queue.set_replicas(slots, self._held)
