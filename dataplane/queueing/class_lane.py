"""One class among those that wait: fair among its tenants, by tokens and weights.

Each tenant has an account in virtual time, and the one that is furthest behind goes next. What
a request is expected to take moves its tenant's account when it is given a slot; once it has
ended, what it really took does. Expected is what its caller says, times the share of that which
such requests of the tenant took before: a limit that nobody comes near would have a tenant wait
for nothing until its requests have ended. The time of the lane is that of whoever goes next, and
who comes back is set there: what it did not ask for meanwhile is nobody's debt to it.

    A (weight 1)   |----- 400 -----|----- 400 -----|
    B (weight 2)   |- 300/2 -|- 300/2 -|- 300/2 -|           B goes next
    lane                                         ^ time: who comes back begins here

What starts with nobody waiting is charged to nobody, since it is taken from nobody.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator

from dataplane.policy import ClassPolicy
from dataplane.queueing.tenant_account import TenantAccount
from dataplane.queueing.ticket import Ticket
from dataplane.taken_share import TakenShare

_MIN_CLEANED = 64

LaneKey = tuple[str, int, float]
"""Who has one lives by the class's name, priority and aging as they were when it came."""


def lane_key(request_class: ClassPolicy) -> LaneKey:
    """The lane of those that come now."""
    return (request_class.name, request_class.priority, request_class.aging_per_second)


class Charge:
    """What one request that is not settled was charged."""

    __slots__ = ("account", "lane", "num_expected", "num_tokens")

    def __init__(self, lane: "ClassLane", account: TenantAccount, num_expected: int) -> None:
        self.lane = lane
        self.account = account
        self.num_expected = num_expected
        """As its caller says."""
        self.num_tokens = num_expected * account.taken_share.value


class ClassLane:
    """Those that wait of one class. Nothing costs more when more wait, but to look at all."""

    def __init__(self, key: LaneKey, taken_share: TakenShare) -> None:
        """`taken_share` is that of all requests of its name: lanes come and go."""
        self.key = key
        self._taken_share = taken_share
        self.priority = key[1]
        self.aging = key[2]
        """Priority that it gains with each second that its oldest waits."""
        self.waiting: OrderedDict[Ticket, None] = OrderedDict()
        """In order of arrival: the first has waited for longest."""
        self.oldest_at = 0.0
        """When that one came."""
        self._time = 0.0
        self._num_charges = 0
        self._accounts: dict[str, TenantAccount] = {}
        # A heap of those that wait. One whose account has moved since is dropped when met.
        self._turns: list[tuple[float, int, TenantAccount]] = []

    @property
    def is_idle(self) -> bool:
        """Nobody waits, and nothing that was charged runs: it has nothing to remember."""
        return not self.waiting and not self._num_charges

    @property
    def front(self) -> Ticket:
        """Who of it goes next. Somebody must wait."""
        self._now()
        return self._turns[0][2].front

    @property
    def newest_of_most(self) -> Ticket:
        """The newest of the tenant with the most tokens waiting for its weight. Somebody must
        wait."""
        waiting = (account for account in self._accounts.values() if account.waiting)
        most = max(waiting, key=lambda account: (account.num_tokens / account.weight, account.rank))
        return next(reversed(most.waiting))

    def num_before(self, tenant: str) -> int:
        """How many of those that wait would go before one more of the tenant, as long as nobody
        else comes. Costs a little for each tenant."""
        own, now = self._accounts.get(tenant), self._now()
        time = now if own is None else max(own.time, now)
        if own is None or not own.waiting:
            return sum(account.num_begun_by(time) for account in self._accounts.values())
        time = own.time + own.time_needed
        others = (account for account in self._accounts.values() if account is not own)
        return len(own.waiting) + sum(account.num_begun_by(time) for account in others)

    def is_outweighed(self, tenant: str, tokens_for_weight: float) -> bool:
        """Another tenant has more tokens waiting for its weight than this one would have, with so
        many more. Costs a little for each tenant."""
        own = self._accounts.get(tenant)
        standing = tokens_for_weight + (0.0 if own is None else own.num_tokens / own.weight)
        return any(
            account.num_tokens / account.weight > standing
            for account in self._accounts.values()
            if account.waiting and account is not own
        )

    def add(self, ticket: Ticket) -> None:
        """One more waits."""
        if not self.waiting:
            self.oldest_at = ticket.entered_at
        self.waiting[ticket] = None
        account = self._account(ticket)
        if account.add(ticket, self._now()):
            self._put(account)

    def remove(self, ticket: Ticket) -> None:
        """One leaves. Raises KeyError when it has."""
        waiting = self.waiting
        del waiting[ticket]
        if waiting and ticket.entered_at == self.oldest_at:  # it may have been the first
            self.oldest_at = next(iter(waiting)).entered_at
        self._account(ticket).remove(ticket)

    def charge(self, ticket: Ticket) -> Charge:
        """It is given its slots."""
        account = self._account(ticket)
        charge = Charge(self, account, ticket.demand.num_expected_tokens)
        self._time = account.time
        self._num_charges += 1
        self._move(account, charge.num_tokens)
        return charge

    def settle(self, charge: Charge, num_tokens: int | None) -> None:
        """What it was given has ended, and took so many tokens; None: as many as expected."""
        self._num_charges -= 1
        if num_tokens is None:
            return
        if num_tokens and charge.num_expected:
            share = num_tokens / charge.num_expected
            self._taken_share.learn(share)
            charge.account.taken_share.learn(share)
        self._move(charge.account, num_tokens - charge.num_tokens)

    def in_order(self) -> Iterator[Ticket]:
        """Those that wait, the next first, were all given what is expected of them."""
        times = [
            (
                account.time,
                account.rank,
                account.taken_share.value / account.weight,
                account.in_order(),
            )
            for account in self._accounts.values()
            if account.waiting
        ]
        heapq.heapify(times)
        while times:
            time, rank, pace, tickets = times[0]
            ticket = next(tickets, None)
            if ticket is None:
                heapq.heappop(times)
                continue
            yield ticket
            moved = time + ticket.demand.num_expected_tokens * pace
            heapq.heapreplace(times, (moved, rank, pace, tickets))

    def check_integrity(self) -> None:
        """Raises AssertionError when somebody is counted wrongly or hidden."""
        num_waiting = sum(len(account.waiting) for account in self._accounts.values())
        if num_waiting != len(self.waiting):
            raise AssertionError(f"{len(self.waiting)} wait, and {num_waiting} at their tenants")
        if self.waiting and self.oldest_at != next(iter(self.waiting)).entered_at:
            raise AssertionError(f"the oldest of class {self.key[0]} came at {self.oldest_at}")
        if self._num_charges < 0:
            raise AssertionError(f"class {self.key[0]} has {self._num_charges} charges")
        for account in self._accounts.values():
            account.check_integrity()
        if self.waiting and self.front is not next(self.in_order()):
            raise AssertionError(f"request {self.front.number} goes before a tenant that is behind")

    def _account(self, ticket: Ticket) -> TenantAccount:
        tenant = ticket.demand.tenant
        account = self._accounts.get(tenant)
        if account is None:
            account = self._accounts[tenant] = TenantAccount(self._now(), self._taken_share)
            account.weight = ticket.demand.weight
        return account

    def _now(self) -> float:
        """Virtual: of whoever goes next, or where the latest began where nobody waits."""
        turns = self._turns
        while turns and not _is_current(turns[0]):
            heapq.heappop(turns)
        return turns[0][0] if turns else self._time

    def _move(self, account: TenantAccount, num_tokens: float) -> None:
        if num_tokens:
            account.move(num_tokens)
            if account.waiting:
                self._put(account)

    def _put(self, account: TenantAccount) -> None:
        if len(self._turns) > _MIN_CLEANED + 4 * len(self._accounts):
            self._turns = [turn for turn in self._turns if _is_current(turn)]
            heapq.heapify(self._turns)
        heapq.heappush(self._turns, (account.time, account.rank, account))


def _is_current(turn: tuple[float, int, TenantAccount]) -> bool:
    time, rank, account = turn
    return bool(account.waiting) and account.time == time and account.rank == rank
