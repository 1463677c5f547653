"""The rule of the queue as it reads, with no thought of cost: everything is looked at each time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dataplane.policy import ClassPolicy
from dataplane.routing import Candidate, choose_replica

RETRY_PRIORITY = 2**63


@dataclass(eq=False)
class PlainTicket:
    priority: int
    number: int
    deadline_at: float | None
    excluded: frozenset[str]
    num_slots: int
    unserved_since: float | None = None
    outcome: str | None = None


@dataclass
class PlainQueue:
    unserved_seconds: float
    now: float = 0.0
    slots: dict[str, int | None] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    waiting: list[PlainTicket] = field(default_factory=list)
    num_entered: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)
    """Who left, in order, and how."""

    def set_replicas(self, slots: Mapping[str, int | None], elsewhere: Mapping[str, int]) -> None:
        self.slots, self.elsewhere = dict(slots), dict(elsewhere)
        for ticket in self.waiting:
            self._note_service(ticket)
        self._dispatch()

    def enter(
        self, policy: ClassPolicy, excluded: frozenset[str], num_slots: int, entered_at: float
    ) -> PlainTicket:
        limit = policy.deadline_seconds
        ticket = PlainTicket(
            priority=RETRY_PRIORITY if excluded else policy.priority,
            number=self.num_entered,
            deadline_at=None if limit is None else entered_at + limit,
            excluded=excluded,
            num_slots=num_slots,
        )
        self.num_entered += 1
        self.waiting.append(ticket)
        self._note_service(ticket)
        self._dispatch()
        return ticket

    def leave(self, ticket: PlainTicket) -> None:
        if ticket.outcome is None:
            self._settle(ticket, "cancelled")
            self._dispatch()

    def release(self, ticket: PlainTicket) -> None:
        assert ticket.outcome is not None
        self.held[ticket.outcome] -= ticket.num_slots
        self._dispatch()

    def expire(self) -> None:
        for ticket in self._order():
            if ticket.deadline_at is not None and self.now >= ticket.deadline_at:
                self._settle(ticket, "deadline")
            elif (
                ticket.unserved_since is not None
                and self.now >= ticket.unserved_since + self.unserved_seconds
            ):
                self._settle(ticket, "error")
        self._dispatch()

    def has_room_for(self, num_slots: int) -> bool:
        kept = {r for ticket in self.waiting for r in self.slots if r not in ticket.excluded}
        return choose_replica(self._candidates(), kept, num_slots) is not None

    def num_ahead(self, ticket: PlainTicket) -> int:
        return self._order().index(ticket)

    def _order(self) -> list[PlainTicket]:
        return sorted(self.waiting, key=lambda t: (-t.priority, t.number))

    def _candidates(self) -> list[Candidate]:
        return [
            Candidate(
                replica_id=replica_id,
                num_outstanding=self.held.get(replica_id, 0) + self.elsewhere.get(replica_id, 0),
                max_outstanding=limit,
            )
            for replica_id, limit in self.slots.items()
        ]

    def _note_service(self, ticket: PlainTicket) -> None:
        if self.slots.keys() - ticket.excluded:
            ticket.unserved_since = None
        elif ticket.unserved_since is None:
            ticket.unserved_since = self.now

    def _settle(self, ticket: PlainTicket, outcome: str) -> None:
        self.waiting.remove(ticket)
        ticket.outcome = outcome
        self.told.append((ticket.number, outcome))

    def _dispatch(self) -> None:
        while self._grant_one():
            pass

    def _grant_one(self) -> bool:
        kept: set[str] = set()
        for ticket in self._order():
            chosen = choose_replica(self._candidates(), ticket.excluded | kept, ticket.num_slots)
            if chosen is not None:
                replica_id = chosen.replica_id
                self.held[replica_id] = self.held.get(replica_id, 0) + ticket.num_slots
                self._settle(ticket, replica_id)
                return True
            kept |= self.slots.keys() - ticket.excluded
        return False
