"""Slots of a lane's replicas that are not its own to give."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from dataplane.queueing.queue import DeploymentQueue


def slots_elsewhere(
    replica_ids: Iterable[str],
    queues: Mapping[str, DeploymentQueue],
    lanes: Container[str],
    held_by_predecessors: Mapping[str, int],
) -> Mapping[str, int]:
    """By replica. Beside draining predecessors, requests of a lane that is gone hold them: of a
    candidate that was promoted, whose replicas are in its deployment's lane now."""
    gone = [queue for lane, queue in queues.items() if lane not in lanes and queue.num_held]
    if not gone:
        return held_by_predecessors
    held = {each: sum(queue.num_outstanding(each) for queue in gone) for each in replica_ids}
    return Counter(held_by_predecessors) + Counter(held)
