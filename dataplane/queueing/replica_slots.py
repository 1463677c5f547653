"""The slots of connected replicas: how many each has, how many are held, and where one is free.

Each connected replica has one `Candidate`, which is changed in place. Those with a free slot stand
in a list of their own, in no order: whoever gets or loses its last free slot enters or leaves it at
the cost of one replica, so that a choice among them begins without a look at all of them.
"""

from collections.abc import KeysView, Mapping, Sequence, Set

from dataplane.routing.candidate import Candidate


class ReplicaSlots:
    """Counts held slots by replica. A replica that is gone is remembered until nothing of it is
    held."""

    def __init__(self) -> None:
        self.open: list[Candidate] = []
        """With a free slot. For reading alone, before anything changes."""
        self._connected: dict[str, Candidate] = {}
        self._known: dict[str, Candidate] = {}  # connected, or something of it is held
        self._outstanding: dict[str, int] = {}  # held here
        self._limits: dict[str, int | None] = {}  # of the connected, as they were told
        self._lower: dict[str, int] = {}  # learned meanwhile

    def set_replicas(self, limits: Mapping[str, int | None], elsewhere: Mapping[str, int]) -> None:
        """The connected replicas, the slots of each (None: no limit), and how many of them another
        process holds."""
        self._connected = {}
        self._limits = dict(limits)
        self._lower = {each: limit for each, limit in self._lower.items() if each in limits}
        for replica_id in limits:
            limit = self._limit_of(replica_id)
            held = self._outstanding.get(replica_id, 0) + elsewhere.get(replica_id, 0)
            candidate = self._known.get(replica_id)
            if candidate is None:
                candidate = Candidate(
                    replica_id=replica_id, num_outstanding=held, max_outstanding=limit
                )
            candidate.num_outstanding, candidate.max_outstanding = held, limit
            candidate.fewest_outstanding = min(held, candidate.fewest_outstanding)
            candidate.most_outstanding = max(held, candidate.most_outstanding)
            self._connected[replica_id] = candidate
        for replica_id, candidate in self._known.items():
            candidate.position = None
            if replica_id not in self._connected and replica_id in self._outstanding:
                candidate.num_outstanding = self._outstanding[replica_id]
        self._known = {
            each: candidate
            for each, candidate in {**self._known, **self._connected}.items()
            if each in self._connected or each in self._outstanding
        }
        self.open = [each for each in self._connected.values() if each.has_room_for(1)]
        for position, candidate in enumerate(self.open):
            candidate.position = position

    def set_lower_limit(self, replica_id: str, limit: int | None) -> None:
        """A connected replica is given no more than so many from now on, and no more than it was
        told to have; None: as many as that. What it has beyond stays."""
        candidate = self._connected.get(replica_id)
        if candidate is None or self._lower.get(replica_id) == limit:
            return
        if limit is None:
            del self._lower[replica_id]
        else:
            self._lower[replica_id] = limit
        candidate.max_outstanding = self._limit_of(replica_id)
        if candidate.has_room_for(1):
            if candidate.position is None:
                self._open_or_forget(candidate)
        elif candidate.position is not None:
            self._close(candidate, candidate.position)

    def _limit_of(self, replica_id: str) -> int | None:
        limit, lower = self._limits[replica_id], self._lower.get(replica_id)
        if limit is None or lower is None:
            return limit if lower is None else lower
        return min(limit, lower)

    @property
    def has_replicas(self) -> bool:
        """Some replica is connected."""
        return bool(self._connected)

    def replica_ids(self) -> KeysView[str]:
        """Of the connected."""
        return self._connected.keys()

    def find(self, replica_id: str) -> Candidate | None:
        """A replica that is connected, or of which something is held."""
        return self._known.get(replica_id)

    def num_outstanding(self, replica_id: str) -> int:
        """Slots of the replica that were taken here."""
        return self._outstanding.get(replica_id, 0)

    @property
    def num_held(self) -> int:
        """Slots of all replicas that were taken here."""
        return sum(self._outstanding.values())

    @property
    def num_tokens_ahead(self) -> int:
        """What routing counts as work to come, on all replicas."""
        return sum(
            each.num_prompt_tokens_ahead + each.num_output_tokens_ahead
            for each in self._known.values()
        )

    def with_room(self, num_slots: int, excluded: Set[str]) -> Sequence[Candidate]:
        """Connected replicas with room for so many sequences, but for the excluded. Read it before
        anything changes."""
        if num_slots == 1 and not excluded:
            return self.open
        return [
            each
            for each in self._connected.values()
            if each.has_room_for(num_slots) and each.replica_id not in excluded
        ]

    def drop_old_reports(self, now: float) -> None:
        """What a replica told long ago says nothing of who else sends to it now."""
        for candidate in self._connected.values():
            if candidate.num_foreign and (report := candidate.reported) is not None:
                candidate.num_foreign = report.num_foreign if report.is_new(now) else 0

    def take(self, replica_id: str, num_slots: int) -> None:
        """Hold slots of a connected replica."""
        self._outstanding[replica_id] = self._outstanding.get(replica_id, 0) + num_slots
        candidate = self._known[replica_id]
        candidate.num_outstanding += num_slots
        if candidate.num_outstanding > candidate.most_outstanding:
            candidate.most_outstanding = candidate.num_outstanding
        limit, position = candidate.max_outstanding, candidate.position
        if limit is not None and candidate.num_outstanding >= limit and position is not None:
            self._close(candidate, position)

    def give_back(self, replica_id: str, num_slots: int) -> None:
        """They are free again. Raises KeyError for a replica of which nothing is held."""
        left = self._outstanding[replica_id] - num_slots
        candidate = self._known[replica_id]
        candidate.num_outstanding -= num_slots
        if candidate.num_outstanding < candidate.fewest_outstanding:
            candidate.fewest_outstanding = candidate.num_outstanding
        if left:
            self._outstanding[replica_id] = left
        else:
            del self._outstanding[replica_id]
        if candidate.position is None:
            self._open_or_forget(candidate)

    def check_integrity(self) -> None:
        """Raises AssertionError when a count is below one, or a free slot is not to be found."""
        for replica_id, count in self._outstanding.items():
            if count < 1:
                raise AssertionError(f"replica {replica_id} has {count} outstanding requests")
            if self._known[replica_id].num_outstanding < count:
                raise AssertionError(
                    f"replica {replica_id} counts {self._known[replica_id].num_outstanding} "
                    f"outstanding requests, and {count} are held here"
                )
        free = [each for each in self._connected.values() if each.has_room_for(1)]
        if {id(each) for each in free} != {id(each) for each in self.open}:
            raise AssertionError(f"{len(free)} replicas have a free slot, {len(self.open)} show it")
        for position, candidate in enumerate(self.open):
            if candidate.position != position:
                raise AssertionError(f"{candidate.replica_id} is not where it is looked for")

    def _close(self, candidate: Candidate, position: int) -> None:
        last = self.open.pop()
        if last is not candidate:
            self.open[position] = last
            last.position = position
        candidate.position = None

    def _open_or_forget(self, candidate: Candidate) -> None:
        replica_id = candidate.replica_id
        if replica_id in self._connected:
            if candidate.has_room_for(1):
                candidate.position = len(self.open)
                self.open.append(candidate)
        elif replica_id not in self._outstanding:
            del self._known[replica_id]
