"""The queue of one deployment: who waits, in which order, and who holds a slot.

Higher priority goes first, and equal priorities in order of arrival. A ticket leaves the
queue exactly once: with a lease on a slot of a replica, or with a departure (its deadline
passed, its client left, no replica came). A lease is a context manager, so a slot comes
back however its holder ends, and a lease that was granted to somebody who had just left
comes back at once. A request of several sequences takes a slot for each, all at once: while
it waits for them, those behind it do not take what becomes free on a replica that it may use.

    enter -> Ticket --slot free--> Lease --exit--> slot free, next one is granted
                   \\--leave-----> Departure

All methods are synchronous and belong to one event loop; only waiting on a ticket is not.
"""

import asyncio
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from types import MappingProxyType, TracebackType

from dataplane.clock import MonotonicClock
from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.routing import Candidate, choose_replica

# A request that lost its replica has waited already: it goes before everybody.
_RETRY_PRIORITY = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """Why a ticket left without a slot."""

    disposition: Disposition
    reason: str


class Lease:
    """The slots of one request on one replica, held until the `with` block ends."""

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


@dataclass(slots=True, eq=False)
class Ticket:
    """One waiting request."""

    class_name: str
    priority: int
    entered_at: float
    deadline_at: float | None
    excluded: Set[str]
    outcome: "asyncio.Future[Lease | Departure]"
    num_slots: int = 1
    """One for each sequence. They are granted together, once so many are free on one replica, or
    all of them where it has fewer."""
    unserved_since: float | None = None
    """Since when no connected replica could ever take it."""

    async def wait(self) -> Lease | Departure:
        """How the ticket left the queue."""
        try:
            return await asyncio.shield(self.outcome)
        except asyncio.CancelledError:
            # Nobody is left to take the lease: it must not stay with this ticket.
            self.outcome.add_done_callback(_release)
            raise


def _release(outcome: "asyncio.Future[Lease | Departure]") -> None:
    if not outcome.cancelled() and isinstance(lease := outcome.result(), Lease):
        lease.release()


@dataclass(slots=True)
class DeploymentQueue:
    """Waiting requests of one deployment and the slots of its connected replicas.

    `unserved_seconds` is how long a request waits when no replica could take it at all.
    """

    clock: MonotonicClock
    unserved_seconds: float
    _slots: dict[str, int | None] = field(default_factory=dict)
    _held_elsewhere: dict[str, int] = field(default_factory=dict)
    _outstanding: dict[str, int] = field(default_factory=dict)
    _waiting: dict[int, dict[Ticket, None]] = field(default_factory=dict)

    @property
    def num_waiting(self) -> int:
        """Tickets that have not left."""
        return sum(len(tickets) for tickets in self._waiting.values())

    def has_room_for(self, num_slots: int) -> bool:
        """A request of so many sequences that entered now would start at once, and take nothing
        that somebody waits for."""
        kept: set[str] = set()
        for ticket in self._tickets():
            kept |= self._usable(ticket)
            if kept >= self._slots.keys():
                return False
        return choose_replica(self._candidates(), kept, num_slots) is not None

    def num_waiting_by_class(self) -> dict[str, int]:
        """Waiting requests by class name."""
        counts: dict[str, int] = {}
        for ticket in self._tickets():
            counts[ticket.class_name] = counts.get(ticket.class_name, 0) + 1
        return counts

    def oldest_entered_at(self) -> float | None:
        """When the longest waiting ticket entered, or None."""
        return min((ticket.entered_at for ticket in self._tickets()), default=None)

    def num_outstanding(self, replica_id: str) -> int:
        """Slots of the replica that are held."""
        return self._outstanding.get(replica_id, 0)

    def set_replicas(
        self,
        slots: Mapping[str, int | None],
        held_elsewhere: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """The connected replicas, how many slots each has (None: no limit), and how many of them
        another process of this place still holds.

        Leases on a replica that is gone stay valid until their holders end.
        """
        self._slots = dict(slots)
        self._held_elsewhere = dict(held_elsewhere)
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
        now = self.clock()
        entered_at = now if entered_at is None else entered_at
        limit = request_class.deadline_seconds
        ticket = Ticket(
            class_name=request_class.name,
            priority=_RETRY_PRIORITY if excluded else request_class.priority,
            entered_at=entered_at,
            deadline_at=None if limit is None else entered_at + limit,
            excluded=excluded,
            outcome=asyncio.get_running_loop().create_future(),
            num_slots=num_slots,
        )
        self._waiting.setdefault(ticket.priority, {})[ticket] = None
        self._note_service(ticket)
        self._dispatch()
        return ticket

    def leave(self, ticket: Ticket, departure: Departure) -> bool:
        """Take a ticket out; False when it had left already."""
        if ticket.outcome.done():
            return False
        self._depart(ticket, departure)
        self._dispatch()  # those behind it may take what was kept for it
        return True

    def expire(self) -> None:
        """Send away whoever waited past a deadline, or too long for any replica at all."""
        now = self.clock()
        for ticket in self._tickets():
            if ticket.deadline_at is not None and now >= ticket.deadline_at:
                waited = now - ticket.entered_at
                self._depart(
                    ticket,
                    Departure(
                        disposition=Disposition.DEADLINE,
                        reason=f"waited {waited:.1f} s for a slot, past the deadline of its class",
                    ),
                )
            elif (
                ticket.unserved_since is not None
                and now - ticket.unserved_since >= self.unserved_seconds
            ):
                self._depart(
                    ticket,
                    Departure(
                        disposition=Disposition.ERROR,
                        reason=f"no replica could be reached for {self.unserved_seconds:g} s",
                    ),
                )
        self._dispatch()

    def check_integrity(self) -> None:
        """Raises AssertionError when a slot is counted wrongly, or one idles while others wait."""
        for replica_id, count in self._outstanding.items():
            if count < 1:
                raise AssertionError(f"replica {replica_id} has {count} outstanding requests")
        if (startable := self._find_startable()) is not None:
            ticket, chosen = startable
            raise AssertionError(
                f"a request of class {ticket.class_name} waits beside "
                f"{ticket.num_slots} free slots of {chosen.replica_id}"
            )

    def _candidates(self) -> list[Candidate]:
        return [
            Candidate(
                replica_id=replica_id,
                num_outstanding=self._outstanding.get(replica_id, 0)
                + self._held_elsewhere.get(replica_id, 0),
                max_outstanding=slots,
            )
            for replica_id, slots in self._slots.items()
        ]

    def _tickets(self) -> list[Ticket]:
        return [
            t for priority in sorted(self._waiting, reverse=True) for t in self._waiting[priority]
        ]

    def _note_service(self, ticket: Ticket) -> None:
        if self._usable(ticket):
            ticket.unserved_since = None
        elif ticket.unserved_since is None:
            ticket.unserved_since = self.clock()

    def _depart(self, ticket: Ticket, departure: Departure) -> None:
        self._remove(ticket)
        ticket.outcome.set_result(departure)

    def _remove(self, ticket: Ticket) -> None:
        tickets = self._waiting[ticket.priority]
        del tickets[ticket]
        if not tickets:
            del self._waiting[ticket.priority]

    def _usable(self, ticket: Ticket) -> Set[str]:
        return self._slots.keys() - ticket.excluded

    def _dispatch(self) -> None:
        """Grant free slots until nobody can start."""
        while (startable := self._find_startable()) is not None:
            ticket, chosen = startable
            held = self._outstanding.get(chosen.replica_id, 0)
            self._outstanding[chosen.replica_id] = held + ticket.num_slots
            self._remove(ticket)
            ticket.outcome.set_result(Lease(self, chosen.replica_id, ticket.num_slots))

    def _find_startable(self) -> tuple[Ticket, Candidate] | None:
        """The first in order that can start. What it waits for is kept from those behind it: they
        pass a retry only to a replica that has failed it."""
        candidates = self._candidates()
        kept: set[str] = set()
        for ticket in self._tickets():
            chosen = choose_replica(candidates, ticket.excluded | kept, ticket.num_slots)
            if chosen is not None:
                return ticket, chosen
            kept |= self._usable(ticket)
            if kept >= self._slots.keys():
                return None
        return None

    def _give_back(self, replica_id: str, num_slots: int) -> None:
        left = self._outstanding[replica_id] - num_slots
        if left:
            self._outstanding[replica_id] = left
        else:
            del self._outstanding[replica_id]
        self._dispatch()
