"""One tenant among those of a class: its requests that wait, and what it was charged.

Time of an account is virtual: it moves on by tokens / weight with what the tenant is given, so
that whoever is furthest behind goes next. Within a tenant the earliest deadline goes first, and
those without one in order of arrival.
"""

import heapq
import math
from collections import OrderedDict
from collections.abc import Iterator

from dataplane.queueing.ticket import Ticket
from dataplane.taken_share import TakenShare

_MIN_CLEANED = 64


class TenantAccount:
    """Of one tenant in one class. Its lane changes it."""

    __slots__ = (
        "_by_deadline",
        "num_expected",
        "num_tokens",
        "rank",
        "returned_at",
        "taken_share",
        "time",
        "waiting",
        "weight",
    )

    def __init__(self, time: float, of_class: TakenShare) -> None:
        self.taken_share = TakenShare(of_class.value, num_known=1)
        """What its requests take of the tokens that are expected of them."""
        self.time = time
        """Virtual."""
        self.returned_at = time
        """That of its lane when it last came to wait: no refund sets it further back, or it would
        be paid for a time in which it asked for nothing."""
        self.rank = 0
        """Which of those at the same time goes first: the one that came to wait first."""
        self.weight = 1.0
        self.waiting: OrderedDict[Ticket, None] = OrderedDict()
        """In order of arrival."""
        self.num_tokens = 0
        """Of those that wait; so is the next."""
        self.num_expected = 0
        self._by_deadline: list[tuple[float, int, Ticket]] = []  # a heap; some may have left

    @property
    def front(self) -> Ticket:
        """Its next. Somebody must wait."""
        entries = self._by_deadline
        while entries[0][2] not in self.waiting:
            heapq.heappop(entries)
        return entries[0][2]

    def add(self, ticket: Ticket, now: float) -> bool:
        """One more waits, at virtual time `now`. True: nobody of it had waited."""
        is_back = not self.waiting
        if is_back:
            self.returned_at = now
            self.time = max(self.time, now)
            self.rank = ticket.number
        self.weight = ticket.demand.weight
        self.waiting[ticket] = None
        self.num_tokens += ticket.demand.num_tokens
        self.num_expected += ticket.demand.num_expected_tokens
        heapq.heappush(self._by_deadline, (_due(ticket), ticket.number, ticket))
        return is_back

    def remove(self, ticket: Ticket) -> None:
        """One leaves. Raises KeyError when it has."""
        del self.waiting[ticket]
        self.num_tokens -= ticket.demand.num_tokens
        self.num_expected -= ticket.demand.num_expected_tokens
        if len(self._by_deadline) > _MIN_CLEANED + 2 * len(self.waiting):
            self._by_deadline = [each for each in self._by_deadline if each[2] in self.waiting]
            heapq.heapify(self._by_deadline)

    def move(self, num_tokens: float) -> None:
        """It was given so many tokens more, or, where they are fewer than none, less than it was
        charged."""
        self.time = max(self.time + num_tokens / self.weight, self.returned_at)

    @property
    def time_needed(self) -> float:
        """Virtual, for all that wait, were they given what such requests take."""
        return self.num_expected * self.taken_share.value / self.weight

    def num_begun_by(self, time: float) -> int:
        """How many of those that wait begin until its account stands there, were all alike."""
        num_waiting = len(self.waiting)
        if not num_waiting or self.time > time:
            return 0
        needed = self.time_needed
        if not needed:
            return num_waiting
        return min(num_waiting, math.floor((time - self.time) * num_waiting / needed) + 1)

    def in_order(self) -> Iterator[Ticket]:
        """Those that wait, the next first."""
        return iter(sorted(self.waiting, key=lambda ticket: (_due(ticket), ticket.number)))

    def check_integrity(self) -> None:
        """Raises AssertionError when tokens are counted wrongly, or somebody is hidden."""
        num_tokens = sum(ticket.demand.num_tokens for ticket in self.waiting)
        num_expected = sum(ticket.demand.num_expected_tokens for ticket in self.waiting)
        if (num_tokens, num_expected) != (self.num_tokens, self.num_expected):
            raise AssertionError(
                f"{num_tokens} tokens wait, {num_expected} are expected, counted as "
                f"{self.num_tokens} and {self.num_expected}"
            )
        if self.waiting and self.front is not next(self.in_order()):
            raise AssertionError(f"request {self.front.number} goes before an earlier deadline")


def _due(ticket: Ticket) -> float:
    return math.inf if ticket.deadline_at is None else ticket.deadline_at
