"""How a simulated gateway hears of its replicas' KV blocks: it asks every second, as a real one.

Only while it has requests, so that a simulation without any comes to its end.
"""

from collections.abc import Callable, Collection
from typing import Protocol

from dataplane.leases.kv_reservation import KVSight
from dataplane.queueing.queue import DeploymentQueue
from dataplane.simulation.fleet_replica import FleetReplica
from dataplane.simulation.timeline import Timeline

ASK_SECONDS = 1.0


class ReplicaFinder(Protocol):
    """The fleet, as a gateway knows it."""

    def find_replica(self, replica_id: str) -> FleetReplica | None:
        """The replica, while it can be reached."""
        ...


class BlockWatch:
    """Of one gateway."""

    def __init__(
        self,
        queue: DeploymentQueue,
        timeline: Timeline,
        replicas: ReplicaFinder,
        has_requests: Callable[[], bool],
    ) -> None:
        self._queue = queue
        self._timeline = timeline
        self._replicas = replicas
        self._has_requests = has_requests
        self._replica_ids: list[str] = []
        self._is_asking = False

    def set_replicas(self, replica_ids: Collection[str]) -> None:
        """Those that can be reached. What others held went with them."""
        self._queue.kv.keep_only(set(replica_ids))
        self._replica_ids = sorted(replica_ids)
        if self._is_asking:
            self._ask_all()

    def begin(self) -> None:
        """There is a request to decide on: ask now, and as long as there are any."""
        if not self._is_asking:
            self._is_asking = True
            self._ask()

    def _ask(self) -> None:
        if not self._has_requests():
            self._is_asking = False
            return
        self._ask_all()
        self._timeline.after(ASK_SECONDS, self._ask)

    def _ask_all(self) -> None:
        for replica_id in self._replica_ids:
            replica = self._replicas.find_replica(replica_id)
            if replica is not None and replica.engine is not None:
                self._queue.note_blocks(replica_id, self._sight_of(replica))

    def _sight_of(self, replica: FleetReplica) -> KVSight:
        assert replica.engine is not None
        scheduler = replica.engine.scheduler
        return KVSight(
            num_blocks=scheduler.config.num_blocks,
            block_size=scheduler.config.block_size,
            num_referenced_blocks=scheduler.pool.num_referenced,
            told_at=self._timeline.now,
        )
