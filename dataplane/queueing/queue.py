"""The queue of one deployment: who waits, in which order, and who holds a slot.

Who lost a replica goes first; then the class of the highest priority, where waiting raises that
of a class with aging; within it the tenant that was given the fewest tokens for its weight; of
one tenant the earliest deadline. A ticket leaves the queue exactly once: with a lease on a slot
of a replica, or with a departure (its deadline passed, its client left, it was shed, no replica
came). A lease is a context manager, so a slot comes back however its holder ends, and a lease
that was granted to somebody who had just left comes back at once. A request of several sequences
takes a slot for each, all at once: while it waits for them, those behind it do not take what
becomes free on a replica that it may use.

    enter -> Ticket --slot free--> Lease --exit--> slot free, next one is granted
                   \\--leave-----> Departure

All methods are synchronous and belong to one thread. How a ticket left is its `outcome`; who
waits for it is told by one call (`Ticket.on_leaving`), inside the method that decided it.

Nobody is given a slot once its deadline has passed: whoever is late leaves before the next one
is chosen. A completion costs the same however many wait and however many replicas there are:
where the front ticket wants one slot on any replica, nothing is looked at but it, the least held
replica, and each class once.
"""

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType

from dataplane.clock import MonotonicClock
from dataplane.leases.kv_decision import with_blocks
from dataplane.leases.kv_reservation import KVDemand, KVReservations, KVSight
from dataplane.leases.lease import Lease as Reservation
from dataplane.lifecycle import Disposition
from dataplane.policy import AdmissionPolicyTerms, ClassPolicy
from dataplane.queueing.class_lane import Charge
from dataplane.queueing.demand import ONE_SLOT, QueueDemand
from dataplane.queueing.drain_rate import DrainRate, DrainReading
from dataplane.queueing.openings import Openings
from dataplane.queueing.promises import Promises
from dataplane.queueing.replica_slots import ReplicaSlots
from dataplane.queueing.ticket import Departure, Lease, LeavingListener, Ticket
from dataplane.queueing.wait_limits import WaitLimits
from dataplane.queueing.waiting_line import WaitingLine
from dataplane.routing.candidate import Candidate
from dataplane.routing.placement import Placement
from dataplane.routing.router import Router, plain_router

__all__ = ["Departure", "DeploymentQueue", "Lease", "LeavingListener", "QueueDemand", "Ticket"]


_NO_LIMITS = (None, None)
_NOBODY: Set[str] = frozenset()


class DeploymentQueue:
    """Waiting requests of one deployment and the slots of its connected replicas."""

    def __init__(
        self, clock: MonotonicClock, unserved_seconds: float, router: Router | None = None
    ) -> None:
        """`unserved_seconds` is how long a request waits when no replica could take it at all;
        without a `router` the replica with the fewest held takes it."""
        self.clock = clock
        self.router = plain_router(clock) if router is None else router
        self.drain = DrainRate(clock)
        """How fast those who wait begin. For reading alone."""
        self.kv = KVReservations(clock)
        """Blocks of KV cache of those that were given slots. For reading alone."""
        self._slots = ReplicaSlots()
        self._line = WaitingLine()
        self._openings = Openings(self._slots, self.kv, self._line)
        self._limits = WaitLimits(unserved_seconds)
        self.promises = Promises(clock, self.router, self._slots, self._line, self.drain)
        """What is learned so that its policy's are kept. For reading alone."""
        self._num_entered = 0
        self._is_dispatching = False

    @property
    def num_waiting(self) -> int:
        """Tickets that have not left."""
        return self._line.num_waiting

    @property
    def num_waiting_tokens(self) -> int:
        """Of their prompts, and those that may be generated for them."""
        return self._line.num_tokens

    @property
    def num_waiting_bytes(self) -> int:
        """Of their bodies."""
        return self._line.num_bytes

    @property
    def is_empty(self) -> bool:
        """Nobody waits, and nothing is remembered of anybody."""
        return not self._line.num_waiting and not self._line.num_lanes

    def has_room_for(self, num_slots: int, kv: KVDemand | None = None) -> bool:
        """A request of so many sequences, which wants so many blocks, that entered now would start
        at once, and take nothing that somebody waits for."""
        return self._openings.has_any(num_slots, kv)

    def read_drain(self) -> DrainReading | None:
        """How fast those who wait begin; None: nobody can tell. While no replica is connected, what
        was measured before is of another time."""
        return self.drain.read() if self._slots.has_replicas else None

    def num_waiting_by_class(self) -> Mapping[str, int]:
        """Waiting requests by class name, as they are now: read it before anything changes."""
        return self._line.num_by_class

    def num_before(self, class_name: str, tenant: str) -> int:
        """How many of those of a class that wait would go before one more of the tenant, as far as
        what they are expected to take tells, and as long as nobody else comes."""
        return self._line.num_before(class_name, tenant)

    def is_outweighed(self, class_name: str, tenant: str, tokens_for_weight: float) -> bool:
        """Whether another tenant has more tokens waiting in a class for its weight than this one
        would have, with so many for its weight more: then `shed` sends one of that one away."""
        return self._line.is_outweighed(class_name, tenant, tokens_for_weight)

    def positions(self) -> dict[Ticket, int]:
        """The place of everybody who waits; 1 goes next. As it is now: who comes later may go
        before."""
        return {ticket: place for place, ticket in enumerate(self._line.in_order(self.clock()), 1)}

    def oldest_entered_at(self) -> float | None:
        """When the longest waiting ticket entered, or None."""
        oldest = self._line.find_oldest()
        return None if oldest is None else oldest.entered_at

    def oldest_entered_at_by_class(self) -> Mapping[str, float]:
        """When the longest waiting of each class entered that has any."""
        return self._line.oldest_by_class()

    def find_candidate(self, replica_id: str) -> Candidate | None:
        """What routing knows of a replica that is connected, or of which something is held."""
        return self._slots.find(replica_id)

    def check_replicas(self) -> None:
        """Look for replicas that do worse than the others, or may come back, and forget what they
        told long ago. Often is no error."""
        if self.router.check():
            self._slots.drop_old_reports(self.clock())

    def num_outstanding(self, replica_id: str) -> int:
        """Slots of the replica that are held."""
        return self._slots.num_outstanding(replica_id)

    @property
    def num_held(self) -> int:
        """Slots of all replicas that are held."""
        return self._slots.num_held

    @property
    def num_tokens_ahead(self) -> int:
        """What routing counts as work to come of those that were given slots."""
        return self._slots.num_tokens_ahead

    @property
    def num_remembered(self) -> int:
        """Tickets that deadlines are watched of, and classes of which somebody waits or was
        charged. Some may have left."""
        return self._limits.num_watched + self._line.num_lanes

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
        self.promises.keep_replicas(slots.keys())
        self._note_waiting()
        self.promises.note_connected()
        for ticket in self._line:
            self._note_service(ticket)
        self._dispatch()

    def note_blocks(self, replica_id: str, sight: KVSight | None) -> None:
        """What a replica's engine told of its blocks; None: it does not show them."""
        self.kv.see(replica_id, sight)
        if self._line.num_waiting:
            self._dispatch()

    def enter(
        self,
        request_class: ClassPolicy,
        demand: QueueDemand = ONE_SLOT,
        excluded: Set[str] = frozenset(),
    ) -> Ticket:
        """Join the queue. `excluded` names replicas that failed this request: it is a retry."""
        entered_at = self.clock()
        deadline_at = demand.deadline_at
        if request_class.deadline_seconds is not None:
            of_class = entered_at + request_class.deadline_seconds
            deadline_at = of_class if deadline_at is None else min(of_class, deadline_at)
        if request_class.first_token_seconds is not None:
            first_slot_at = entered_at + self.promises.longest_wait(
                request_class.first_token_seconds, demand
            )
            deadline_at = first_slot_at if deadline_at is None else min(first_slot_at, deadline_at)
        self._num_entered += 1
        ticket = Ticket(request_class, demand, self._num_entered, entered_at, deadline_at, excluded)
        if not self._line.num_waiting and self._start_at_once(ticket):
            return ticket
        self._line.add(ticket)
        self._note_waiting()
        if self.promises.class_drains:
            self.promises.note_waiting(ticket.class_name)
        if excluded or not self._slots.has_replicas:
            self._note_service(ticket)
        if deadline_at is not None:
            self._limits.watch_deadline(deadline_at, ticket, self._line.num_waiting)
        self._dispatch()
        return ticket

    def start_at_once(self, request_class: ClassPolicy, demand: QueueDemand) -> Lease | None:
        """What `enter` comes to where nobody waits and a slot is free; None: enter."""
        if self._line.num_waiting or demand.deadline_at is not None:
            return None
        if (request_class.deadline_seconds, request_class.first_token_seconds) != _NO_LIMITS:
            return None
        candidates = self._slots.with_room(demand.num_slots, _NOBODY)
        if demand.kv is not None or not candidates:
            return None
        self._num_entered += 1
        return self._grant(demand, candidates, _NOBODY, None)

    def leave(self, ticket: Ticket, departure: Departure) -> bool:
        """Take a ticket out; False when it had left already."""
        if ticket.outcome is not None:
            return False
        self._depart(ticket, departure)
        self._dispatch()  # those behind it may take what was kept for it
        return True

    def send_away(self, departure: Departure) -> None:
        """All who wait leave, in order of arrival."""
        for ticket in sorted(self._line, key=lambda each: each.number):
            self.leave(ticket, departure)

    def shed(self, class_name: str, reason: str) -> Ticket | None:
        """Send one of a class away, so that others may wait; None: none of it waits but retries.

        It is the newest of the tenant that has the most tokens waiting for its weight.
        """
        ticket = self._line.find_sheddable(class_name)
        if ticket is not None:
            self.leave(ticket, Departure(disposition=Disposition.SHED, reason=reason))
        return ticket

    def expire(self) -> None:
        """Send away whoever waited past a deadline, or too long for any replica at all."""
        now = self.clock()
        for ticket in self._limits.take_expired(now):
            if ticket.outcome is None:
                self._depart(ticket, self._limits.explain(ticket, now))
        self._dispatch()

    def keep_promises(self, terms: AdmissionPolicyTerms) -> None:
        """Learn what these terms ask about. The same again is no change."""
        if self.promises.keep(terms):
            self._dispatch()

    def give_back(self, lease: Lease) -> None:
        """What it held is free again. For leases alone."""
        if self.promises.pace is not None:
            self.promises.note_answer(lease)
        self._slots.give_back(lease.replica_id, lease.num_slots)
        if lease.charge is not None:
            self._line.settle(lease.charge, lease.num_tokens)
        lease.placement.end()
        if lease.reservation is not None:
            lease.reservation.release()
        if self._line.num_waiting:
            self._dispatch()

    def check_integrity(self) -> None:
        """Raises AssertionError when a slot is counted wrongly, or one idles while others wait."""
        self._slots.check_integrity()
        self._line.check_integrity()
        self.kv.check_integrity()
        startable = self._openings.find_startable(self.clock())
        if startable is not None:
            ticket, candidates = startable
            raise AssertionError(
                f"a request of class {ticket.class_name} waits beside "
                f"{ticket.demand.num_slots} free slots of {candidates[0].replica_id}"
            )

    def _note_service(self, ticket: Ticket) -> None:
        if self._slots.replica_ids() and (not ticket.excluded or self._openings.usable(ticket)):
            self._limits.note_served(ticket)
        else:
            self._limits.note_unserved(ticket, self.clock())

    def _depart(self, ticket: Ticket, departure: Departure) -> None:
        self._remove(ticket)
        ticket.settle(departure)

    def _remove(self, ticket: Ticket) -> None:
        self._line.remove(ticket)
        if not self._line.num_waiting:
            self._note_waiting()
        if self.promises.class_drains:
            self.promises.note_waiting(ticket.class_name)
        self._limits.forget(ticket)

    def _note_waiting(self) -> None:
        """Who waits for a replica to connect does not wait for a turn: it tells no rate."""
        self.drain.note_waiting(bool(self._line.num_waiting) and self._slots.has_replicas)

    def _start_at_once(self, ticket: Ticket) -> bool:
        """Nobody is before it: its slots are taken from nobody, and charged to nobody."""
        candidates = self._openings.for_ticket(ticket, _NOBODY)
        if not candidates:
            return False
        if ticket.deadline_at is not None and ticket.deadline_at <= ticket.entered_at:
            ticket.outcome = self._limits.explain(ticket, ticket.entered_at)
            return True
        ticket.outcome = self._grant(ticket.demand, candidates, ticket.excluded, None)
        return True

    def _grant(
        self,
        demand: QueueDemand,
        candidates: Sequence[Candidate],
        excluded: Set[str],
        charge: Charge | None,
    ) -> Lease:
        """Slots on the one of them that the router chooses."""
        placement = self.router.choose(demand.routing, candidates, excluded)
        self._slots.take(placement.replica_id, demand.num_slots)
        reservation = None
        if demand.kv is not None:
            reservation = self._reserve(placement, demand.kv)
        return Lease(self, placement, demand.num_slots, charge, reservation)

    def _reserve(self, placement: Placement, wanted: KVDemand) -> Reservation:
        replica_id, decision = placement.replica_id, placement.decision
        if decision is not None:
            room = self.kv.room(replica_id, wanted)
            placement.decision = with_blocks(decision, wanted, room)
        return self.kv.take(replica_id, wanted)

    def _dispatch(self) -> None:
        """Grant free slots until nobody can start. Who is told of it may call this again: then
        the call that is under way goes on with what has changed."""
        if self._is_dispatching:
            return
        self._is_dispatching = True
        try:
            while (startable := self._find_next()) is not None:
                ticket, candidates = startable
                charge = self._line.charge(ticket)
                lease = self._grant(ticket.demand, candidates, ticket.excluded, charge)
                self.drain.note_begun(ticket.demand.num_tokens)
                if self.promises.class_drains:
                    self.promises.note_begun(ticket.class_name, ticket.demand.num_tokens)
                self._remove(ticket)
                ticket.settle(lease)
        finally:
            self._is_dispatching = False

    def _find_next(self) -> tuple[Ticket, Sequence[Candidate]] | None:
        """The first who can start, of those who are not late; who is leaves."""
        if not self._line.num_waiting or not self._slots.open:
            return None
        now = self.clock()
        for late in self._limits.take_late(now):
            self._depart(late, self._limits.explain(late, now))
        return self._openings.find_startable(now)
