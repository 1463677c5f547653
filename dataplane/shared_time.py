"""How much of a replica's time each request had, where its engine does not say.

While sequences are on a replica, its time is taken to be shared evenly among them. One number a
replica is enough for that: how much a single sequence would have had that was there from the
beginning. What a request had is by how much that number grew while it was there::

    on the replica      |  A  |  A B  |  A B C  |  C  |
    a sequence has had  0    +1s     +1s/2    +1s/3   +1s

Only what this gateway sent there is known, so that with several gateways the parts add up to
more than the time. No clock but the one that is passed in is asked.
"""

from dataplane.clock import MonotonicClock
from dataplane.leases.lease import Lease


class SharedTime:
    """Of any number of replicas; one on which nothing is takes no memory."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock
        self._replicas: dict[str, _Replica] = {}

    def enter(self, replica_id: str, num_sequences: int) -> "Stay":
        """A request is on the replica until its stay ends."""
        replica = self._replicas.get(replica_id)
        if replica is None:
            replica = self._replicas[replica_id] = _Replica(self._clock())
        replica.change(num_sequences, self._clock())
        return Stay(self, replica_id, num_sequences, replica.of_one)

    def had_by(self, stay: "Stay") -> float:
        """Seconds up to now, of a stay that has not ended."""
        replica = self._replicas[stay.replica_id]
        replica.change(0, self._clock())
        return stay.num_sequences * (replica.of_one - stay.of_one_before)

    def leave(self, stay: "Stay") -> None:
        """For stays alone, which call it once."""
        replica = self._replicas[stay.replica_id]
        replica.change(-stay.num_sequences, self._clock())
        if not replica.num_sequences:
            del self._replicas[stay.replica_id]

    @property
    def num_sequences(self) -> int:
        """On all replicas now."""
        return sum(replica.num_sequences for replica in self._replicas.values())

    def check_integrity(self) -> None:
        """Raises AssertionError when a replica is remembered on which nothing is."""
        for replica_id, replica in self._replicas.items():
            if replica.num_sequences < 1:
                raise AssertionError(f"{replica.num_sequences} sequences are on {replica_id}")


class Stay(Lease):
    """One request on one replica. `seconds` is what it had; it stands still once it has ended."""

    __slots__ = ("_had", "_owner", "num_sequences", "of_one_before", "replica_id")

    def __init__(
        self, owner: SharedTime, replica_id: str, num_sequences: int, of_one_before: float
    ) -> None:
        super().__init__(self._leave)
        self.replica_id = replica_id
        self.num_sequences = num_sequences
        self.of_one_before = of_one_before
        self._owner = owner
        self._had = 0.0

    @property
    def seconds(self) -> float:
        """Of the replica's time."""
        return self._owner.had_by(self) if self.is_held else self._had

    def _leave(self) -> None:
        self._had = self._owner.had_by(self)
        self._owner.leave(self)


class _Replica:
    __slots__ = ("_changed_at", "num_sequences", "of_one")

    def __init__(self, now: float) -> None:
        self.num_sequences = 0
        self.of_one = 0.0
        self._changed_at = now

    def change(self, num_more: int, now: float) -> None:
        if self.num_sequences:
            self.of_one += (now - self._changed_at) / self.num_sequences
        self._changed_at = now
        self.num_sequences += num_more
