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

import heapq
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType

from dataplane.clock import MonotonicClock
from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.replica_slots import ReplicaSlots
from dataplane.routing import choose_replica

# A request that lost its replica has waited already: it goes before everybody.
_RETRY_PRIORITY = 2**63
_MIN_DEADLINES_CLEANED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Why a ticket left without a slot."""

    disposition: Disposition
    reason: str


class Lease:
    """The slots of one request on one replica, held until the `with` block ends."""

    __slots__ = ("_is_held", "_num_slots", "_queue", "replica_id")

    def __init__(self, queue: "DeploymentQueue", replica_id: str, num_slots: int) -> None:
        self.replica_id = replica_id
        self._num_slots = num_slots
        self._queue = queue
        self._is_held = True

    def __enter__(self) -> "Lease":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the slots back. Twice is no error."""
        if self._is_held:
            self._is_held = False
            self._queue._give_back(self.replica_id, self._num_slots)


LeavingListener = Callable[[Lease | Departure], None]
"""Is told once, at once. It must not raise; it may call the queue."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One waiting request."""

    class_name: str
    priority: int
    number: int
    """In order of arrival."""
    entered_at: float
    deadline_at: float | None
    excluded: Set[str]
    num_slots: int = 1
    """One for each sequence. They are granted together, once so many are free on one replica, or
    all of them where it has fewer."""
    unserved_since: float | None = None
    """Since when no connected replica could ever take it."""
    outcome: Lease | Departure | None = None
    """How it left the queue; None while it waits."""
    _listener: LeavingListener | None = None

    def on_leaving(self, listener: LeavingListener) -> None:
        """Have `listener` told how the ticket leaves, at once where it has left. Only one can."""
        if self.outcome is None:
            self._listener = listener
        else:
            listener(self.outcome)

    @property
    def waits_for(self) -> str:
        """What has to come before it can start, in words; who goes before it is the queue's."""
        other = " that has not failed it" if self.excluded else ""
        if self.unserved_since is not None:
            return f"a replica{other} to be reached"
        slots = "a slot" if self.num_slots == 1 else f"{self.num_slots} slots at once"
        return f"{slots} on a replica{other}" if other else slots

    def settle(self, outcome: Lease | Departure) -> None:
        """For the queue alone."""
        self.outcome = outcome
        listener, self._listener = self._listener, None
        if listener is not None:
            listener(outcome)


@dataclass(slots=True)
class DeploymentQueue:
    """Waiting requests of one deployment and the slots of its connected replicas.

    `unserved_seconds` is how long a request waits when no replica could take it at all.
    """

    clock: MonotonicClock
    unserved_seconds: float
    _slots: ReplicaSlots = field(default_factory=ReplicaSlots)
    _waiting: dict[int, OrderedDict[Ticket, None]] = field(default_factory=dict)
    """Ordered: the first of a plain dict costs as much as was taken from its front before."""
    _priorities: list[int] = field(default_factory=list)
    """Negated, of those who wait: the highest first."""
    _num_waiting_by_class: dict[str, int] = field(default_factory=dict)
    _num_waiting: int = 0
    _num_entered: int = 0
    _deadlines: list[tuple[float, int, Ticket]] = field(default_factory=list)
    """A heap; tickets that have left are dropped when they are met."""
    _unserved: dict[Ticket, None] = field(default_factory=dict)
    _is_dispatching: bool = False

    @property
    def num_waiting(self) -> int:
        """Tickets that have not left."""
        return self._num_waiting

    def has_room_for(self, num_slots: int) -> bool:
        """A request of so many sequences that entered now would start at once, and take nothing
        that somebody waits for."""
        if not self._num_waiting and num_slots == 1:
            return self._slots.find_least_held() is not None
        kept: set[str] = set()
        for ticket in self._tickets():
            kept |= self._usable(ticket)
            if kept >= self._slots.replica_ids():
                return False
        return choose_replica(self._slots.candidates(), kept, num_slots) is not None

    def num_waiting_by_class(self) -> Mapping[str, int]:
        """Waiting requests by class name, as they are now: read it before anything changes."""
        return self._num_waiting_by_class

    def num_ahead(self, ticket: Ticket) -> int:
        """How many of those who wait go before `ticket`. Raises KeyError when it has left."""
        equals = self._waiting[ticket.priority]
        if ticket not in equals:
            raise KeyError(f"the ticket of class {ticket.class_name} has left the queue")
        before = sum(len(t) for priority, t in self._waiting.items() if priority > ticket.priority)
        for number, other in enumerate(equals):
            if other is ticket:
                return before + number
        raise AssertionError("a ticket that waits is among its equals")

    def positions(self) -> dict[Ticket, int]:
        """The place of everybody who waits; 1 goes next."""
        return {ticket: place for place, ticket in enumerate(self._tickets(), 1)}

    def oldest_entered_at(self) -> float | None:
        """When the longest waiting ticket entered, or None."""
        return min((ticket.entered_at for ticket in self._tickets()), default=None)

    def num_outstanding(self, replica_id: str) -> int:
        """Slots of the replica that are held."""
        return self._slots.num_outstanding(replica_id)

    @property
    def next_expiry_at(self) -> float | None:
        """When `expire` may next have somebody to send away; None: nobody waits for less than
        for ever."""
        self._drop_met_deadlines()
        times = [ticket.unserved_since for ticket in self._unserved]
        since = min((time for time in times if time is not None), default=None)
        candidates = [self._deadlines[0][0]] if self._deadlines else []
        if since is not None:
            candidates.append(since + self.unserved_seconds)
        return min(candidates, default=None)

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
        for ticket in self._tickets():
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
        if num_slots == 1 and not excluded and not self._num_waiting:
            # Nobody is before it: as the way below, at a fraction of the cost.
            replica_id = self._slots.find_least_held()
            if replica_id is not None:
                self._slots.take(replica_id, 1)
                ticket.outcome = Lease(self, replica_id, 1)
                return ticket
        self._add(ticket)
        if excluded or not self._slots.has_replicas:
            self._note_service(ticket)
        self._dispatch()
        if ticket.deadline_at is not None and ticket.outcome is None:
            self._watch(ticket.deadline_at, ticket)
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
        for ticket in self._find_expired(now):
            if ticket.outcome is None:
                self._depart(ticket, self._explain_expiry(ticket, now))
        self._dispatch()

    def check_integrity(self) -> None:
        """Raises AssertionError when a slot is counted wrongly, or one idles while others wait."""
        self._slots.check_integrity()
        tickets = list(self._tickets())
        counts: dict[str, int] = {}
        for ticket in tickets:
            counts[ticket.class_name] = counts.get(ticket.class_name, 0) + 1
        if counts != self._num_waiting_by_class or len(tickets) != self._num_waiting:
            raise AssertionError(
                f"{counts} wait, counted as {self._num_waiting_by_class} and as "
                f"{self._num_waiting} in all"
            )
        if (startable := self._find_startable()) is not None:
            ticket, replica_id = startable
            raise AssertionError(
                f"a request of class {ticket.class_name} waits beside "
                f"{ticket.num_slots} free slots of {replica_id}"
            )

    def _tickets(self) -> Iterator[Ticket]:
        """Those who wait, in order."""
        for priority in self._priorities:
            yield from self._waiting[-priority]

    def _note_service(self, ticket: Ticket) -> None:
        if self._slots.replica_ids() and (not ticket.excluded or self._usable(ticket)):
            ticket.unserved_since = None
            self._unserved.pop(ticket, None)
        elif ticket.unserved_since is None:
            ticket.unserved_since = self.clock()
            self._unserved[ticket] = None

    def _depart(self, ticket: Ticket, departure: Departure) -> None:
        self._remove(ticket)
        ticket.settle(departure)

    def _add(self, ticket: Ticket) -> None:
        tickets = self._waiting.get(ticket.priority)
        if tickets is None:
            tickets = self._waiting[ticket.priority] = OrderedDict()
            insort(self._priorities, -ticket.priority)
        tickets[ticket] = None
        self._num_waiting += 1
        counts = self._num_waiting_by_class
        counts[ticket.class_name] = counts.get(ticket.class_name, 0) + 1

    def _remove(self, ticket: Ticket) -> None:
        tickets = self._waiting[ticket.priority]
        del tickets[ticket]
        if not tickets:
            del self._waiting[ticket.priority]
            self._priorities.remove(-ticket.priority)
        self._num_waiting -= 1
        counts = self._num_waiting_by_class
        left = counts[ticket.class_name] - 1
        if left:
            counts[ticket.class_name] = left
        else:
            del counts[ticket.class_name]
        if self._unserved:
            self._unserved.pop(ticket, None)

    def _usable(self, ticket: Ticket) -> Set[str]:
        return self._slots.replica_ids() - ticket.excluded

    def _watch(self, deadline_at: float, ticket: Ticket) -> None:
        if len(self._deadlines) > _MIN_DEADLINES_CLEANED + 2 * self._num_waiting:
            self._deadlines = [entry for entry in self._deadlines if entry[2].outcome is None]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (deadline_at, ticket.number, ticket))

    def _drop_met_deadlines(self) -> None:
        while self._deadlines and self._deadlines[0][2].outcome is not None:
            heapq.heappop(self._deadlines)

    def _find_expired(self, now: float) -> list[Ticket]:
        """In the order of the queue."""
        expired = {
            ticket: None
            for ticket in self._unserved
            if ticket.unserved_since is not None
            and now - ticket.unserved_since >= self.unserved_seconds
        }
        while self._deadlines and self._deadlines[0][0] <= now:
            ticket = heapq.heappop(self._deadlines)[2]
            if ticket.outcome is None:
                expired[ticket] = None
        return sorted(expired, key=lambda ticket: (-ticket.priority, ticket.number))

    def _explain_expiry(self, ticket: Ticket, now: float) -> Departure:
        if ticket.deadline_at is not None and now >= ticket.deadline_at:
            waited = now - ticket.entered_at
            return Departure(
                disposition=Disposition.DEADLINE,
                reason=f"waited {waited:.1f} s for a slot, past the deadline of its class",
            )
        return Departure(
            disposition=Disposition.ERROR,
            reason=f"no replica could be reached for {self.unserved_seconds:g} s",
        )

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
        if not self._priorities:
            return None
        front = next(iter(self._waiting[-self._priorities[0]]))
        if front.excluded or front.num_slots != 1:
            return self._find_startable()
        replica_id = self._slots.find_least_held()
        return None if replica_id is None else (front, replica_id)

    def _find_startable(self) -> tuple[Ticket, str] | None:
        """The first in order that can start. What it waits for is kept from those behind it: they
        pass a retry only to a replica that has failed it."""
        candidates = self._slots.candidates()
        kept: set[str] = set()
        for ticket in self._tickets():
            chosen = choose_replica(candidates, ticket.excluded | kept, ticket.num_slots)
            if chosen is not None:
                return ticket, chosen.replica_id
            kept |= self._usable(ticket)
            if kept >= self._slots.replica_ids():
                return None
        return None

    def _give_back(self, replica_id: str, num_slots: int) -> None:
        self._slots.give_back(replica_id, num_slots)
        if self._num_waiting:
            self._dispatch()
