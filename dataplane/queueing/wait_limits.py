"""Who has waited too long: past the deadline of a class, or for any replica at all."""

import heapq
from collections import OrderedDict

from dataplane.lifecycle import Disposition
from dataplane.queueing.ticket import Departure, Ticket

_MIN_DEADLINES_CLEANED = 64


class WaitLimits:
    """Of one queue. Tickets that have left are dropped when they are met."""

    def __init__(self, unserved_seconds: float) -> None:
        """`unserved_seconds` bounds a wait while no replica could take the ticket at all."""
        self.unserved_seconds = unserved_seconds
        self._deadlines: list[tuple[float, int, Ticket]] = []  # a heap
        self._unserved: OrderedDict[Ticket, None] = OrderedDict()  # the longest first

    @property
    def num_watched(self) -> int:
        """Those that have left and were not met yet included: some more than twice as many as
        wait, at most."""
        return len(self._deadlines) + len(self._unserved)

    @property
    def next_expiry_at(self) -> float | None:
        """When somebody may next have waited too long; None: nobody waits for less than for
        ever."""
        while self._deadlines and self._deadlines[0][2].outcome is not None:
            heapq.heappop(self._deadlines)
        first_deadline = self._deadlines[0][0] if self._deadlines else None
        if not self._unserved:
            return first_deadline
        first_unserved = self._unserved_until(next(iter(self._unserved)))
        return first_unserved if first_deadline is None else min(first_unserved, first_deadline)

    def watch_deadline(self, deadline_at: float, ticket: Ticket, num_waiting: int) -> None:
        """It waits until then at most; all who wait are so many."""
        if len(self._deadlines) > _MIN_DEADLINES_CLEANED + 2 * num_waiting:
            self._deadlines = [entry for entry in self._deadlines if entry[2].outcome is None]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (deadline_at, ticket.number, ticket))

    def note_served(self, ticket: Ticket) -> None:
        """Some replica could take it."""
        ticket.unserved_since = None
        self._unserved.pop(ticket, None)

    def note_unserved(self, ticket: Ticket, now: float) -> None:
        """No replica could."""
        if ticket.unserved_since is None:
            ticket.unserved_since = now
            self._unserved[ticket] = None

    def forget(self, ticket: Ticket) -> None:
        """It leaves."""
        if self._unserved:
            self._unserved.pop(ticket, None)

    def take_late(self, now: float) -> list[Ticket]:
        """Those whose deadline has passed, in order of deadlines. Once."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now:
            ticket = heapq.heappop(self._deadlines)[2]
            if ticket.outcome is None:
                late.append(ticket)
        return late

    def take_expired(self, now: float) -> list[Ticket]:
        """The same, and those that no replica could take for too long, in order of arrival."""
        expired = dict.fromkeys(self.take_late(now))
        for ticket in self._unserved:
            if self._unserved_until(ticket) > now:
                break
            expired[ticket] = None
        return sorted(expired, key=lambda ticket: ticket.number)

    def explain(self, ticket: Ticket, now: float) -> Departure:
        """How one that has waited too long leaves."""
        if ticket.deadline_at is not None and now >= ticket.deadline_at:
            waited = now - ticket.entered_at
            return Departure(
                disposition=Disposition.DEADLINE,
                reason=f"waited {waited:.1f} s for a slot, past its deadline",
            )
        return Departure(
            disposition=Disposition.ERROR,
            reason=f"no replica could be reached for {self.unserved_seconds:g} s",
            is_unserved=True,
        )

    def _unserved_until(self, ticket: Ticket) -> float:
        """The one sum of those who say when it is due and those who look: a difference of the
        same numbers may be rounded to the other side of the limit."""
        assert ticket.unserved_since is not None
        return ticket.unserved_since + self.unserved_seconds
