"""Waiting in the event loop for a ticket to leave its queue."""

import asyncio

from dataplane.queueing.queue import Departure, Lease, Ticket


async def wait_until_left(ticket: Ticket) -> Lease | Departure:
    """How the ticket left the queue. A lease that comes when nobody waits for it any more, or
    that is granted to somebody who is cancelled before hearing of it, goes back at once."""
    left: asyncio.Future[Lease | Departure] = asyncio.get_running_loop().create_future()

    def tell(outcome: Lease | Departure) -> None:
        if left.done():
            _give_back(outcome)
        else:
            left.set_result(outcome)

    ticket.on_leaving(tell)
    try:
        return await left
    except asyncio.CancelledError:
        if not left.cancelled():
            _give_back(left.result())
        raise


def _give_back(outcome: Lease | Departure) -> None:
    if isinstance(outcome, Lease):
        outcome.release()
