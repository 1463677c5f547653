"""Who waits, in order: who lost a replica first, then class by class.

The class whose priority is highest goes next, where a class with aging has as much more of it as
its oldest has gained by waiting; of equals, the one whose next came first. Within a class it is
the order of its lane.
"""

import heapq
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from itertools import chain

from dataplane.queueing.class_lane import Charge, ClassLane, LaneKey, lane_key
from dataplane.queueing.ticket import Ticket
from dataplane.taken_share import TakenShare


class WaitingLine:
    """The tickets of one queue that have not left. Nothing costs more when more wait, but to look
    at all of them; to find the next costs a little for each class."""

    def __init__(self) -> None:
        self.num_waiting = 0
        """For reading alone, and so are the next."""
        self.num_tokens = 0
        self.num_bytes = 0
        self.num_by_class: dict[str, int] = {}
        self._oldest_at: dict[str, float] | None = {}
        """By class; None: to be found anew. Many decisions read it between two that leave."""
        self.retries: OrderedDict[Ticket, None] = OrderedDict()
        """In order of arrival; they go before everybody."""
        # Ordered: the first of a plain dict costs as much as was taken from its front before.
        self._lanes: dict[LaneKey, ClassLane] = {}
        self._taken_shares: dict[str, TakenShare] = {}  # by class

    def __iter__(self) -> Iterator[Ticket]:
        return chain.from_iterable(self._groups())

    def find_front(self, now: float) -> Ticket | None:
        """Who goes next of those who are no retries."""
        best: ClassLane | None = None
        highest = 0.0
        for lane in self._lanes.values():
            if not lane.waiting:
                continue
            priority = lane.priority + lane.aging * (now - lane.oldest_at)
            if (
                best is None
                or priority > highest
                or (priority == highest and lane.front.number < best.front.number)
            ):
                best, highest = lane, priority
        return None if best is None else best.front

    def in_order(self, now: float) -> Iterator[Ticket]:
        """Everybody, were all who can to start now, one after the other."""
        yield from self.retries
        turns = [_Turn(lane, now) for lane in self._lanes.values() if lane.waiting]
        heapq.heapify(turns)
        while turns:
            turn = turns[0]
            yield turn.front
            if turn.pass_on():
                heapq.heapreplace(turns, turn)
            else:
                heapq.heappop(turns)

    def find_oldest(self) -> Ticket | None:
        """Who has waited for longest."""
        firsts = [next(iter(each)) for each in self._groups() if each]
        return min(firsts, key=lambda ticket: ticket.number, default=None)

    def oldest_by_class(self) -> Mapping[str, float]:
        """When who has waited for longest entered, of each class of which somebody waits."""
        if self._oldest_at is None:
            self._oldest_at = self._find_oldest_at()
        return self._oldest_at

    def num_before(self, class_name: str, tenant: str) -> int:
        """How many of a class would go before one more of the tenant that came now."""
        lanes = (lane for key, lane in self._lanes.items() if key[0] == class_name)
        return sum(lane.num_before(tenant) for lane in lanes if lane.waiting)

    def is_outweighed(self, class_name: str, tenant: str, tokens_for_weight: float) -> bool:
        """Another tenant of whom `find_sheddable` would find one has more waiting for its weight
        than this one would have, with so many tokens for its weight more."""
        lanes = [lane for key, lane in self._lanes.items() if key[0] == class_name and lane.waiting]
        return bool(lanes) and lanes[-1].is_outweighed(tenant, tokens_for_weight)

    def find_sheddable(self, class_name: str) -> Ticket | None:
        """Who of a class leaves first where somebody must: the newest of the tenant that has the
        most tokens waiting for its weight. No retry."""
        lanes = [lane for key, lane in self._lanes.items() if key[0] == class_name and lane.waiting]
        return lanes[-1].newest_of_most if lanes else None

    def add(self, ticket: Ticket) -> None:
        """One more waits."""
        if ticket.excluded:
            self.retries[ticket] = None
        else:
            self._lane(ticket).add(ticket)
        if self._oldest_at is not None:
            known = self._oldest_at.get(ticket.class_name, ticket.entered_at)
            self._oldest_at[ticket.class_name] = min(known, ticket.entered_at)
        self._count(ticket, 1)

    def remove(self, ticket: Ticket) -> None:
        """It leaves. Raises KeyError when it has."""
        if ticket.excluded:
            del self.retries[ticket]
        else:
            lane = self._lanes[lane_key(ticket.request_class)]
            lane.remove(ticket)
            self._drop_idle(lane)
        oldest = self._oldest_at
        if oldest is not None and oldest[ticket.class_name] >= ticket.entered_at:
            self._oldest_at = None
        self._count(ticket, -1)

    def charge(self, ticket: Ticket) -> Charge:
        """It is about to leave with its slots."""
        return self._lane(ticket).charge(ticket)

    def settle(self, charge: Charge, num_tokens: int | None) -> None:
        """What was charged has ended, and took so many tokens; None: as many as expected."""
        charge.lane.settle(charge, num_tokens)
        self._drop_idle(charge.lane)

    @property
    def num_lanes(self) -> int:
        """Classes of which something waits or is charged."""
        return len(self._lanes)

    def check_integrity(self) -> None:
        """Raises AssertionError when somebody is counted wrongly."""
        counts: dict[str, int] = {}
        num_tokens = num_bytes = 0
        for ticket in self:
            counts[ticket.class_name] = counts.get(ticket.class_name, 0) + 1
            num_tokens += ticket.demand.num_tokens
            num_bytes += ticket.demand.num_bytes
        counted = (self.num_by_class, self.num_waiting, self.num_tokens, self.num_bytes)
        if counted != (counts, sum(counts.values()), num_tokens, num_bytes):
            raise AssertionError(
                f"{counts} wait, with {num_tokens} tokens and {num_bytes} bytes, counted as "
                f"{counted[0]}, {counted[1]} in all, {counted[2]} and {counted[3]}"
            )
        if self._oldest_at is not None and self._oldest_at != self._find_oldest_at():
            raise AssertionError(f"{self._oldest_at} are not the oldest of each class")
        for lane in self._lanes.values():
            lane.check_integrity()
            if lane.is_idle:
                raise AssertionError(f"class {lane.key[0]} is kept, and nothing of it is there")

    def _find_oldest_at(self) -> dict[str, float]:
        oldest: dict[str, float] = {}
        lanes = [lane.waiting for lane in self._lanes.values() if lane.waiting]
        for ticket in chain(self.retries, map(_first, lanes)):
            known = oldest.get(ticket.class_name, ticket.entered_at)
            oldest[ticket.class_name] = min(known, ticket.entered_at)
        return oldest

    def _groups(self) -> Iterator[OrderedDict[Ticket, None]]:
        yield self.retries
        for lane in self._lanes.values():
            yield lane.waiting

    def _lane(self, ticket: Ticket) -> ClassLane:
        key = lane_key(ticket.request_class)
        lane = self._lanes.get(key)
        if lane is None:
            share = self._taken_shares.setdefault(key[0], TakenShare())
            lane = self._lanes[key] = ClassLane(key, share)
        return lane

    def _drop_idle(self, lane: ClassLane) -> None:
        if lane.is_idle:
            del self._lanes[lane.key]

    def _count(self, ticket: Ticket, sign: int) -> None:
        demand, counts, name = ticket.demand, self.num_by_class, ticket.request_class.name
        self.num_waiting += sign
        self.num_tokens += sign * demand.num_tokens
        self.num_bytes += sign * demand.num_bytes
        left = counts.get(name, 0) + sign
        if left:
            counts[name] = left
        else:
            del counts[name]


class _Turn:
    """One lane in a look at the whole order: its next, and how urgent it then is."""

    __slots__ = ("_arrivals", "_gone", "_lane", "_left", "_now", "_oldest", "front", "priority")

    def __init__(self, lane: ClassLane, now: float) -> None:
        self._lane = lane
        self._now = now
        self._left = lane.in_order()
        self._arrivals = iter(lane.waiting)
        self._gone: set[Ticket] = set()
        self._oldest = next(self._arrivals)
        self.front = next(self._left)
        self.priority = self._priority()

    def pass_on(self) -> bool:
        """Its next goes; False: it was the last."""
        self._gone.add(self.front)
        following = next(self._left, None)
        if following is None:
            return False
        self.front = following
        while self._oldest in self._gone:
            self._oldest = next(self._arrivals)
        self.priority = self._priority()
        return True

    def _priority(self) -> float:
        return self._lane.priority + self._lane.aging * (self._now - self._oldest.entered_at)

    def __lt__(self, other: "_Turn") -> bool:
        return (-self.priority, self.front.number) < (-other.priority, other.front.number)


def _first(waiting: OrderedDict[Ticket, None]) -> Ticket:
    return next(iter(waiting))
