"""The place of one request in the queue of its deployment, taken again for a retry."""

from dataclasses import dataclass

from dataplane.gateway.queue_wait import wait_until_left
from dataplane.gateway.registry import InFlightRequest
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease, QueueDemand, Ticket


@dataclass(slots=True, eq=False)
class QueuePlace:
    """The ticket of `request`, while it has one."""

    request: InFlightRequest
    request_class: ClassPolicy
    demand: QueueDemand
    queue: DeploymentQueue
    _ticket: Ticket | None = None

    @property
    def is_taken(self) -> bool:
        """It is in the queue, or has left it and nobody has heard of it yet."""
        return self._ticket is not None

    def enter(self, excluded: frozenset[str] = frozenset()) -> None:
        """Take a place; a slot is wanted on any replica but the `excluded`."""
        ticket = self.queue.enter(self.request_class, self.demand, excluded)
        self._ticket = self.request.ticket = ticket

    def leave(self, departure: Departure) -> None:
        """Give the place up; whoever waits in it hears why."""
        if self._ticket is not None:
            self.queue.leave(self._ticket, departure)

    async def wait(self) -> Lease | Departure:
        """How it left. Comes after `enter`."""
        ticket = self._ticket
        assert ticket is not None
        try:
            return await wait_until_left(ticket)
        finally:
            self._ticket = self.request.ticket = None

    def close(self, departure: Departure) -> None:
        """Give up a place that nobody waits in, with the slot that it may have got."""
        ticket, self._ticket = self._ticket, None
        if ticket is None:
            return
        self.queue.leave(ticket, departure)
        if isinstance(ticket.outcome, Lease):
            ticket.outcome.release()
