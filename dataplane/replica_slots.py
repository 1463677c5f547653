"""The slots of connected replicas: how many each has, how many are held, and where one is free.

Whoever asks for one slot on any replica gets the same answer as `choose_replica` gives over all
of them, without a look at all of them: the replicas wait in a heap by what of them is held. A
change of a replica puts it in anew, and what is no longer true is dropped when it is met.
"""

import heapq
from collections.abc import KeysView, Mapping

from dataplane.routing import Candidate, choose_replica

_MIN_REBUILT = 64


class ReplicaSlots:
    """Counts held slots by replica. A replica that is gone is remembered until nothing of it is
    held."""

    def __init__(self) -> None:
        self._limits: dict[str, int | None] = {}
        self._outstanding: dict[str, int] = {}
        self._held: dict[str, int] = {}  # of the connected: by us and elsewhere
        self._open: list[tuple[int, str]] = []  # a heap of (held, replica id)

    def set_replicas(self, limits: Mapping[str, int | None], elsewhere: Mapping[str, int]) -> None:
        """The connected replicas, the slots of each (None: no limit), and how many of them another
        process holds."""
        self._limits = dict(limits)
        self._held = {
            replica_id: self._outstanding.get(replica_id, 0) + elsewhere.get(replica_id, 0)
            for replica_id in limits
        }
        self._rebuild()

    @property
    def has_replicas(self) -> bool:
        """Some replica is connected."""
        return bool(self._limits)

    def replica_ids(self) -> KeysView[str]:
        """Of the connected."""
        return self._limits.keys()

    def num_outstanding(self, replica_id: str) -> int:
        """Slots of the replica that were taken here."""
        return self._outstanding.get(replica_id, 0)

    def find_least_held(self) -> str | None:
        """The connected replica with a free slot and the fewest held, lowest id first, or None."""
        entries = self._open
        while entries:
            held, replica_id = entries[0]
            if self._held.get(replica_id) == held:
                limit = self._limits[replica_id]
                if limit is None or held < limit:
                    return replica_id
            heapq.heappop(entries)
        return None

    def candidates(self) -> list[Candidate]:
        """Every connected replica, for a choice that has more to say than one slot anywhere."""
        return [
            Candidate(
                replica_id=replica_id,
                num_outstanding=self._held[replica_id],
                max_outstanding=limit,
            )
            for replica_id, limit in self._limits.items()
        ]

    def take(self, replica_id: str, num_slots: int) -> None:
        """Hold slots of a replica."""
        self._outstanding[replica_id] = self._outstanding.get(replica_id, 0) + num_slots
        self._change(replica_id, num_slots)

    def give_back(self, replica_id: str, num_slots: int) -> None:
        """They are free again. Raises KeyError for a replica of which nothing is held."""
        left = self._outstanding[replica_id] - num_slots
        if left:
            self._outstanding[replica_id] = left
        else:
            del self._outstanding[replica_id]
        self._change(replica_id, -num_slots)

    def check_integrity(self) -> None:
        """Raises AssertionError when a count is below one, or the heap hides a free slot."""
        for replica_id, count in self._outstanding.items():
            if count < 1:
                raise AssertionError(f"replica {replica_id} has {count} outstanding requests")
        chosen = choose_replica(self.candidates())
        expected = None if chosen is None else chosen.replica_id
        if self.find_least_held() != expected:
            raise AssertionError(
                f"the least held replica with a free slot is {expected}, "
                f"and {self.find_least_held()} is taken for it"
            )

    def _change(self, replica_id: str, num_slots: int) -> None:
        held = self._held.get(replica_id)
        if held is None:
            return  # it is gone
        held += num_slots
        self._held[replica_id] = held
        if self._has_room(replica_id, held):
            heapq.heappush(self._open, (held, replica_id))
            if len(self._open) > _MIN_REBUILT + 4 * len(self._limits):
                self._rebuild()

    def _has_room(self, replica_id: str, held: int) -> bool:
        limit = self._limits[replica_id]
        return limit is None or held < limit

    def _rebuild(self) -> None:
        self._open = [(h, r) for r, h in self._held.items() if self._has_room(r, h)]
        heapq.heapify(self._open)
