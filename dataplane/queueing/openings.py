"""Who can start now, and on which replicas: free slots and blocks, but for those kept for others.

A retry keeps what becomes free on any replica that has not failed it, so it is passed only to one
that has. Whoever is at the front keeps all the rest: nobody passes it, but a retry.

Nothing is decided by it and nothing taken: the queue grants what is found here.
"""

from collections.abc import Sequence, Set

from dataplane.leases.kv_reservation import KVDemand, KVReservations
from dataplane.queueing.replica_slots import ReplicaSlots
from dataplane.queueing.ticket import Ticket
from dataplane.queueing.waiting_line import WaitingLine
from dataplane.routing.candidate import Candidate


class Openings:
    """Of one queue: its slots, its blocks, and its line of those who wait for them. What it finds
    is good until anything of these changes."""

    def __init__(self, slots: ReplicaSlots, kv: KVReservations, line: WaitingLine) -> None:
        self._slots = slots
        self._kv = kv
        self._line = line

    def usable(self, ticket: Ticket) -> Set[str]:
        """Connected replicas that have not failed it."""
        return self._slots.replica_ids() - ticket.excluded

    def has_any(self, num_slots: int, kv: KVDemand | None) -> bool:
        """For so many sequences and so many blocks of somebody who does not wait yet, behind all
        who do."""
        line = self._line
        if not line.num_waiting and num_slots == 1:
            return bool(self._fitting(self._slots.open, kv))
        if line.num_waiting > len(line.retries):
            return False  # somebody waits for all replicas
        kept: set[str] = set()
        for ticket in line.retries:
            kept |= self.usable(ticket)
            if kept >= self._slots.replica_ids():
                return False
        return bool(self._fitting(self._slots.with_room(num_slots, kept), kv))

    def find_startable(self, now: float) -> tuple[Ticket, Sequence[Candidate]] | None:
        """The first in order that can start. What it waits for is kept from those behind it: they
        pass a retry only to a replica that has failed it, and nobody passes anybody else."""
        kept: set[str] = set()
        for ticket in self._line.retries:
            if candidates := self.for_ticket(ticket, kept):
                return ticket, candidates
            kept |= self.usable(ticket)
            if kept >= self._slots.replica_ids():
                return None
        front = self._line.find_front(now)
        if front is None or not (candidates := self.for_ticket(front, kept)):
            return None
        return front, candidates

    def for_ticket(self, ticket: Ticket, kept: Set[str]) -> Sequence[Candidate]:
        """Replicas that could take it now, but for those kept for others. The ticket learns whether
        it is blocks that it lacks."""
        if ticket.excluded:
            kept = ticket.excluded | kept
        candidates, wanted = self._slots.with_room(ticket.demand.num_slots, kept), ticket.demand.kv
        if wanted is None:
            return candidates
        fitting = self._fitting(candidates, wanted)
        ticket.lacks_blocks = bool(candidates) and not fitting
        return fitting

    def _fitting(
        self, candidates: Sequence[Candidate], wanted: KVDemand | None
    ) -> Sequence[Candidate]:
        """Those that have the blocks, too."""
        if wanted is None:
            return candidates
        return [each for each in candidates if self._kv.room(each.replica_id, wanted).fits]
