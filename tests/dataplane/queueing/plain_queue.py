"""The rule of the queue as it reads, with no thought of cost: everything is looked at each time."""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from dataplane.policy import ClassPolicy
from dataplane.queueing.demand import QueueDemand
from dataplane.routing import Candidate

ClassKey = tuple[str, int, float]


@dataclass(eq=False)
class PlainTicket:
    policy: ClassPolicy
    demand: QueueDemand
    number: int
    entered_at: float
    deadline_at: float | None
    excluded: frozenset[str]
    unserved_since: float | None = None
    outcome: str | None = None
    charged: float | None = None

    @property
    def key(self) -> ClassKey:
        return self.policy.name, self.policy.priority, self.policy.aging_per_second

    @property
    def num_slots(self) -> int:
        return self.demand.num_slots

    @property
    def urgency(self) -> tuple[float, int]:
        return (math.inf if self.deadline_at is None else self.deadline_at, self.number)


@dataclass
class PlainAccount:
    """One tenant in one class, in virtual time."""

    time: float
    returned_at: float
    rank: int
    weight: float
    taken: "Taken"

    def move(self, num_tokens: float) -> None:
        self.time = max(self.time + num_tokens / self.weight, self.returned_at)


@dataclass
class Taken:
    """The mean share of what was expected: of ten, and from then on with a tenth of each."""

    share: float = 1.0
    num_seen: int = 0

    def see(self, share: float) -> None:
        self.num_seen += 1
        self.share += max(0.1, 1 / self.num_seen) * (share - self.share)


@dataclass
class PlainQueue:
    unserved_seconds: float
    now: float = 0.0
    slots: dict[str, int | None] = field(default_factory=dict)
    elsewhere: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    waiting: list[PlainTicket] = field(default_factory=list)
    running: list[PlainTicket] = field(default_factory=list)
    num_entered: int = 0
    told: list[tuple[int, str]] = field(default_factory=list)
    """Who left, in order, and how."""
    taken: dict[str, "Taken"] = field(default_factory=dict)
    """By class."""
    times: dict[ClassKey, float] = field(default_factory=dict)
    accounts: dict[tuple[ClassKey, str], PlainAccount] = field(default_factory=dict)

    def set_replicas(self, slots: Mapping[str, int | None], elsewhere: Mapping[str, int]) -> None:
        self.slots, self.elsewhere = dict(slots), dict(elsewhere)
        for ticket in self.waiting:
            self._note_service(ticket)
        self._dispatch()

    def enter(
        self, policy: ClassPolicy, demand: QueueDemand, excluded: frozenset[str]
    ) -> PlainTicket:
        limit = policy.deadline_seconds
        deadlines = [demand.deadline_at, None if limit is None else self.now + limit]
        self.num_entered += 1
        ticket = PlainTicket(
            policy=policy,
            demand=demand,
            number=self.num_entered,
            entered_at=self.now,
            deadline_at=min((each for each in deadlines if each is not None), default=None),
            excluded=excluded,
        )
        is_alone = not self.waiting
        self.waiting.append(ticket)
        if is_alone and (replica_id := self._choose(ticket, set())) is not None:
            if self._is_late(ticket):
                self._settle(ticket, "deadline")
            else:  # it is taken from nobody
                self._start(ticket, replica_id)
            return ticket
        if not ticket.excluded:
            self._come_back(ticket)
        self._note_service(ticket)
        self._dispatch()
        return ticket

    def leave(self, ticket: PlainTicket, how: str = "cancelled") -> None:
        if ticket.outcome is None:
            self._settle(ticket, how)
            self._dispatch()

    def shed(self, class_name: str) -> None:
        of_class = [t for t in self.waiting if t.policy.name == class_name and not t.excluded]
        if not of_class:
            return
        newest_key = [key for key in self.times if key in {t.key for t in of_class}][-1]
        of_class = [t for t in of_class if t.key == newest_key]

        def burden(ticket: PlainTicket) -> tuple[float, int]:
            tenant, account = ticket.demand.tenant, self.accounts[ticket.key, ticket.demand.tenant]
            tokens = sum(t.demand.num_tokens for t in of_class if t.demand.tenant == tenant)
            return tokens / account.weight, account.rank

        self.leave(max(of_class, key=lambda t: (burden(t), t.number)), "shed")

    def release(self, ticket: PlainTicket, num_tokens: int | None) -> None:
        assert ticket.outcome is not None
        self.held[ticket.outcome] -= ticket.num_slots
        self.running.remove(ticket)
        if ticket.charged is not None and num_tokens is not None:
            account, expected = self._account(ticket), ticket.demand.num_expected_tokens
            if num_tokens and expected:
                share = num_tokens / expected
                self.taken.setdefault(ticket.policy.name, Taken()).see(share)
                account.taken.see(share)
            account.move(num_tokens - ticket.charged)
        self._forget_idle()
        self._dispatch()

    def expire(self) -> None:
        for ticket in list(self.waiting):
            if self._is_late(ticket):
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

    def order(self) -> list[PlainTicket]:
        """Everybody, were all who can to start now."""
        order = [ticket for ticket in self.waiting if ticket.excluded]
        left = [ticket for ticket in self.waiting if not ticket.excluded]
        times = {each: account.time for each, account in self.accounts.items()}
        while left:
            ticket = self._next(left, times)
            tokens, account = ticket.demand.num_expected_tokens, self._account(ticket)
            times[ticket.key, ticket.demand.tenant] += tokens * (
                account.taken.share / account.weight
            )
            left.remove(ticket)
            order.append(ticket)
        return order

    def _next(
        self, left: list[PlainTicket], times: Mapping[tuple[ClassKey, str], float]
    ) -> PlainTicket:
        fronts = [self._front([t for t in left if t.key == key], times) for key in self.times]
        return min(
            (front for front in fronts if front is not None),
            key=lambda front: (-self._priority(front, left), front.number),
        )

    def _priority(self, front: PlainTicket, left: list[PlainTicket]) -> float:
        oldest = min(t.entered_at for t in left if t.key == front.key)
        return front.policy.priority + front.policy.aging_per_second * (self.now - oldest)

    def _front(
        self, of_class: list[PlainTicket], times: Mapping[tuple[ClassKey, str], float]
    ) -> PlainTicket | None:
        def turn(ticket: PlainTicket) -> tuple[float, int, tuple[float, int]]:
            account = self._account(ticket)
            return times[ticket.key, ticket.demand.tenant], account.rank, ticket.urgency

        return min(of_class, key=turn, default=None)

    def _account(self, ticket: PlainTicket) -> PlainAccount:
        self.times.setdefault(ticket.key, 0.0)
        share = self.taken.get(ticket.policy.name, Taken()).share
        now = self._virtual_now(ticket)
        account = PlainAccount(now, now, 0, ticket.demand.weight, Taken(share, 1))
        return self.accounts.setdefault((ticket.key, ticket.demand.tenant), account)

    def _virtual_now(self, coming: PlainTicket) -> float:
        """Where those of a class are who wait: that of whoever goes next."""
        waiting = [t for t in self.waiting if t.key == coming.key and not t.excluded]
        times = [self.accounts[t.key, t.demand.tenant].time for t in waiting if t is not coming]
        return min(times, default=self.times[coming.key])

    def _come_back(self, ticket: PlainTicket) -> None:
        account = self._account(ticket)
        account.weight = ticket.demand.weight
        others = [
            t
            for t in self.waiting
            if t is not ticket and t.key == ticket.key and not t.excluded
            if t.demand.tenant == ticket.demand.tenant
        ]
        if not others:
            account.returned_at = self._virtual_now(ticket)
            account.time = max(account.time, account.returned_at)
            account.rank = ticket.number

    def _candidates(self) -> list[Candidate]:
        return [
            Candidate(
                replica_id=replica_id,
                num_outstanding=self.held.get(replica_id, 0) + self.elsewhere.get(replica_id, 0),
                max_outstanding=limit,
            )
            for replica_id, limit in self.slots.items()
        ]

    def _choose(self, ticket: PlainTicket, kept: set[str]) -> str | None:
        chosen = choose_replica(self._candidates(), ticket.excluded | kept, ticket.num_slots)
        return None if chosen is None else chosen.replica_id

    def _is_late(self, ticket: PlainTicket) -> bool:
        return ticket.deadline_at is not None and self.now >= ticket.deadline_at

    def _note_service(self, ticket: PlainTicket) -> None:
        if self.slots.keys() - ticket.excluded:
            ticket.unserved_since = None
        elif ticket.unserved_since is None:
            ticket.unserved_since = self.now

    def _start(self, ticket: PlainTicket, replica_id: str) -> None:
        self.held[replica_id] = self.held.get(replica_id, 0) + ticket.num_slots
        self.running.append(ticket)
        self._settle(ticket, replica_id)

    def _settle(self, ticket: PlainTicket, outcome: str) -> None:
        self.waiting.remove(ticket)
        ticket.outcome = outcome
        self.told.append((ticket.number, outcome))
        self._forget_idle()

    def _forget_idle(self) -> None:
        """Of a class of which nobody waits, and nothing that was charged runs."""
        busy = {t.key for t in self.waiting if not t.excluded}
        busy |= {t.key for t in self.running if t.charged is not None}
        self.times = {key: time for key, time in self.times.items() if key in busy}
        self.accounts = {each: a for each, a in self.accounts.items() if each[0] in busy}

    def _dispatch(self) -> None:
        while self._grant_one():
            pass

    def _grant_one(self) -> bool:
        if choose_replica(self._candidates()) is None:
            return False
        for late in sorted(filter(self._is_late, self.waiting), key=lambda t: t.urgency):
            self._settle(late, "deadline")
        kept: set[str] = set()
        for ticket in self.order():
            if (replica_id := self._choose(ticket, kept)) is not None:
                self._charge(ticket)
                self._start(ticket, replica_id)
                return True
            kept |= self.slots.keys() - ticket.excluded
        return False

    def _charge(self, ticket: PlainTicket) -> None:
        account = self._account(ticket)
        ticket.charged = ticket.demand.num_expected_tokens * account.taken.share
        self.times[ticket.key] = account.time
        account.move(ticket.charged)


def choose_replica(
    candidates: list[Candidate], excluded: Set[str] = frozenset(), num_slots: int = 1
) -> Candidate | None:
    """The one with room and the fewest held, lowest id first, or None."""
    able = [c for c in candidates if c.has_room_for(num_slots) and c.replica_id not in excluded]
    return min(able, key=lambda c: (c.num_outstanding, c.replica_id), default=None)
