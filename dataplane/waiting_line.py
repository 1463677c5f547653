"""Who waits, in order: higher priority first, and equal priorities in order of arrival."""

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterator

from dataplane.queue_ticket import Ticket


class WaitingLine:
    """The tickets of one queue that have not left. Nothing costs more when more wait, but to look
    at all of them."""

    def __init__(self) -> None:
        self.num_waiting = 0
        """For reading alone, and so is the next."""
        self.num_by_class: dict[str, int] = {}
        self._by_priority: dict[int, OrderedDict[Ticket, None]] = {}
        # Ordered: the first of a plain dict costs as much as was taken from its front before.
        self._priorities: list[int] = []  # negated, of those who wait: the highest first

    def __iter__(self) -> Iterator[Ticket]:
        for priority in self._priorities:
            yield from self._by_priority[-priority]

    @property
    def front(self) -> Ticket | None:
        """Who goes next."""
        if not self._priorities:
            return None
        return next(iter(self._by_priority[-self._priorities[0]]))

    def num_ahead(self, ticket: Ticket) -> int:
        """How many of those who wait go before `ticket`. Raises KeyError when it has left."""
        equals = self._by_priority[ticket.priority]
        if ticket not in equals:
            raise KeyError(f"the ticket of class {ticket.class_name} has left the queue")
        before = sum(
            len(others)
            for priority, others in self._by_priority.items()
            if priority > ticket.priority
        )
        for number, other in enumerate(equals):
            if other is ticket:
                return before + number
        raise AssertionError("a ticket that waits is among its equals")

    def add(self, ticket: Ticket) -> None:
        """Behind its equals."""
        equals = self._by_priority.get(ticket.priority)
        if equals is None:
            equals = self._by_priority[ticket.priority] = OrderedDict()
            insort(self._priorities, -ticket.priority)
        equals[ticket] = None
        self.num_waiting += 1
        counts = self.num_by_class
        counts[ticket.class_name] = counts.get(ticket.class_name, 0) + 1

    def remove(self, ticket: Ticket) -> None:
        """It leaves. Raises KeyError when it has."""
        equals = self._by_priority[ticket.priority]
        del equals[ticket]
        if not equals:
            del self._by_priority[ticket.priority]
            self._priorities.remove(-ticket.priority)
        self.num_waiting -= 1
        counts = self.num_by_class
        left = counts[ticket.class_name] - 1
        if left:
            counts[ticket.class_name] = left
        else:
            del counts[ticket.class_name]

    def check_integrity(self) -> None:
        """Raises AssertionError when somebody is counted wrongly."""
        tickets = list(self)
        counts: dict[str, int] = {}
        for ticket in tickets:
            counts[ticket.class_name] = counts.get(ticket.class_name, 0) + 1
        if counts != self.num_by_class or len(tickets) != self.num_waiting:
            raise AssertionError(
                f"{counts} wait, counted as {self.num_by_class} and as {self.num_waiting} in all"
            )
