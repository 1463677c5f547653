"""The queue of one deployment: who waits, in which order, and who holds a slot.

Higher priority goes first, and equal priorities in order of arrival. A ticket leaves the
queue exactly once: with a lease on a slot of a replica, or with a departure (its deadline
passed, its client left, no replica came). A lease is a context manager, so a slot comes
back however its holder ends, and a lease that was granted to somebody who had just left
comes back at once. A request of several sequences takes a slot for each, all at once: while
it waits for them, those behind it do not take what becomes free on a replica that it may use.

    enter -> Ticket --slot free--> Lease --exit--> slot free, next one is granted
                   \\--leave-----> Departure

All methods are synchronous and belong to one thread. How a ticket left is its `outcome`; who
waits for it is told by one call (`Ticket.on_leaving`), inside the method that decided it.

A completion costs the same however many wait and however many replicas there are: where the
front ticket wants one slot on any replica, nothing is looked at but it and the least held one.
"""

from collections.abc import Mapping, Set
from types import MappingProxyType

from dataplane.clock import MonotonicClock
from dataplane.policy import ClassPolicy
from dataplane.queue_ticket import Departure, Lease, LeavingListener, Ticket
from dataplane.replica_slots import ReplicaSlots
from dataplane.routing import choose_replica
from dataplane.wait_limits import WaitLimits
from dataplane.waiting_line import WaitingLine

__all__ = ["Departure", "DeploymentQueue", "Lease", "LeavingListener", "Ticket"]

# A request that lost its replica has waited already: it goes before everybody.
_RETRY_PRIORITY = 2**63


class DeploymentQueue:
    """Waiting requests of one deployment and the slots of its connected replicas."""

    def __init__(self, clock: MonotonicClock, unserved_seconds: float) -> None:
        """`unserved_seconds` is how long a request waits when no replica could take it at all."""
        self.clock = clock
        self._slots = ReplicaSlots()
        self._line = WaitingLine()
        self._limits = WaitLimits(unserved_seconds)
        self._num_entered = 0
        self._is_dispatching = False

    @property
    def num_waiting(self) -> int:
        """Tickets that have not left."""
        return self._line.num_waiting

    def has_room_for(self, num_slots: int) -> bool:
        """A request of so many sequences that entered now would start at once, and take nothing
        that somebody waits for."""
        front = self._line.front
        if front is None and num_slots == 1:
            return self._slots.find_least_held() is not None
        if front is not None and not front.excluded:
            return False  # it waits for all replicas
        kept: set[str] = set()
        for ticket in self._line:
            kept |= self._usable(ticket)
            if kept >= self._slots.replica_ids():
                return False
        return choose_replica(self._slots.candidates(), kept, num_slots) is not None

    def num_waiting_by_class(self) -> Mapping[str, int]:
        """Waiting requests by class name, as they are now: read it before anything changes."""
        return self._line.num_by_class

    def num_ahead(self, ticket: Ticket) -> int:
        """How many of those who wait go before `ticket`. Raises KeyError when it has left."""
        return self._line.num_ahead(ticket)

    def positions(self) -> dict[Ticket, int]:
        """The place of everybody who waits; 1 goes next."""
        return {ticket: place for place, ticket in enumerate(self._line, 1)}

    def oldest_entered_at(self) -> float | None:
        """When the longest waiting ticket entered, or None."""
        return min((ticket.entered_at for ticket in self._line), default=None)

    def num_outstanding(self, replica_id: str) -> int:
        """Slots of the replica that are held."""
        return self._slots.num_outstanding(replica_id)

    @property
    def next_expiry_at(self) -> float | None:
        """When `expire` may next have somebody to send away; None: nobody waits for less than
        for ever."""
        return self._limits.next_expiry_at

    def set_replicas(
        self,
        slots: Mapping[str, int | None],
        held_elsewhere: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """The connected replicas, how many slots each has (None: no limit), and how many of them
        another process of this place still holds.

        Leases on a replica that is gone stay valid until their holders end.
        """
        self._slots.set_replicas(slots, held_elsewhere)
        for ticket in self._line:
            self._note_service(ticket)
        self._dispatch()

    def enter(
        self,
        request_class: ClassPolicy,
        excluded: Set[str] = frozenset(),
        entered_at: float | None = None,
        num_slots: int = 1,
    ) -> Ticket:
        """Join the queue. `excluded` names replicas that failed this request: it is a retry."""
        if entered_at is None:
            entered_at = self.clock()
        limit = request_class.deadline_seconds
        self._num_entered += 1
        ticket = Ticket(
            request_class.name,
            _RETRY_PRIORITY if excluded else request_class.priority,
            self._num_entered,
            entered_at,
            None if limit is None else entered_at + limit,
            excluded,
            num_slots,
        )
        if num_slots == 1 and not excluded and not self._line.num_waiting:
            # Nobody is before it: as the way below, at a fraction of the cost.
            replica_id = self._slots.find_least_held()
            if replica_id is not None:
                self._slots.take(replica_id, 1)
                ticket.outcome = Lease(self, replica_id, 1)
                return ticket
        self._line.add(ticket)
        if excluded or not self._slots.has_replicas:
            self._note_service(ticket)
        self._dispatch()
        if ticket.deadline_at is not None and ticket.outcome is None:
            self._limits.watch_deadline(ticket.deadline_at, ticket, self._line.num_waiting)
        return ticket

    def leave(self, ticket: Ticket, departure: Departure) -> bool:
        """Take a ticket out; False when it had left already."""
        if ticket.outcome is not None:
            return False
        self._depart(ticket, departure)
        self._dispatch()  # those behind it may take what was kept for it
        return True

    def expire(self) -> None:
        """Send away whoever waited past a deadline, or too long for any replica at all."""
        now = self.clock()
        for ticket in self._limits.find_expired(now):
            if ticket.outcome is None:
                self._depart(ticket, self._limits.explain(ticket, now))
        self._dispatch()

    def give_back(self, replica_id: str, num_slots: int) -> None:
        """Slots are free again. For leases alone."""
        self._slots.give_back(replica_id, num_slots)
        if self._line.num_waiting:
            self._dispatch()

    def check_integrity(self) -> None:
        """Raises AssertionError when a slot is counted wrongly, or one idles while others wait."""
        self._slots.check_integrity()
        self._line.check_integrity()
        if (startable := self._find_startable()) is not None:
            ticket, replica_id = startable
            raise AssertionError(
                f"a request of class {ticket.class_name} waits beside "
                f"{ticket.num_slots} free slots of {replica_id}"
            )

    def _note_service(self, ticket: Ticket) -> None:
        if self._slots.replica_ids() and (not ticket.excluded or self._usable(ticket)):
            self._limits.note_served(ticket)
        else:
            self._limits.note_unserved(ticket, self.clock())

    def _depart(self, ticket: Ticket, departure: Departure) -> None:
        self._remove(ticket)
        ticket.settle(departure)

    def _remove(self, ticket: Ticket) -> None:
        self._line.remove(ticket)
        self._limits.forget(ticket)

    def _usable(self, ticket: Ticket) -> Set[str]:
        return self._slots.replica_ids() - ticket.excluded

    def _dispatch(self) -> None:
        """Grant free slots until nobody can start. Who is told of it may call this again: then
        the call that is under way goes on with what has changed."""
        if self._is_dispatching:
            return
        self._is_dispatching = True
        try:
            while (startable := self._find_next()) is not None:
                ticket, replica_id = startable
                self._slots.take(replica_id, ticket.num_slots)
                self._remove(ticket)
                ticket.settle(Lease(self, replica_id, ticket.num_slots))
        finally:
            self._is_dispatching = False

    def _find_next(self) -> tuple[Ticket, str] | None:
        """As `_find_startable`, at the cost of the front ticket alone where it wants one slot on
        any replica: where it cannot start, it waits for all of them, and nobody passes it."""
        front = self._line.front
        if front is None:
            return None
        if front.excluded or front.num_slots != 1:
            return self._find_startable()
        replica_id = self._slots.find_least_held()
        return None if replica_id is None else (front, replica_id)

    def _find_startable(self) -> tuple[Ticket, str] | None:
        """The first in order that can start. What it waits for is kept from those behind it: they
        pass a retry only to a replica that has failed it."""
        candidates = self._slots.candidates()
        kept: set[str] = set()
        for ticket in self._line:
            chosen = choose_replica(candidates, ticket.excluded | kept, ticket.num_slots)
            if chosen is not None:
                return ticket, chosen.replica_id
            kept |= self._usable(ticket)
            if kept >= self._slots.replica_ids():
                return None
        return None
