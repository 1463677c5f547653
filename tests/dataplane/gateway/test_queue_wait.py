import asyncio

import pytest

from dataplane.gateway.queue_wait import wait_until_left
from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue, Lease

pytestmark = pytest.mark.anyio

BATCH = ClassPolicy(name="batch")


def open_queue() -> tuple[DeploymentQueue, Lease]:
    """One slot, and who holds it."""
    queue = DeploymentQueue(clock=lambda: 0.0, unserved_seconds=5.0)
    queue.set_replicas({"a": 1})
    running = queue.enter(BATCH).outcome
    assert isinstance(running, Lease)
    return queue, running


async def test_who_waits_hears_of_the_slot_and_of_a_departure() -> None:
    queue, running = open_queue()
    first, second = queue.enter(BATCH), queue.enter(BATCH)
    waiters = [asyncio.create_task(wait_until_left(ticket)) for ticket in (first, second)]
    await asyncio.sleep(0)
    running.release()
    gone = Departure(disposition=Disposition.CANCELLED, reason="the client left")
    queue.leave(second, gone)
    lease, departure = await asyncio.gather(*waiters)
    assert isinstance(lease, Lease)
    assert departure is gone


async def test_a_slot_granted_to_somebody_who_just_left_comes_back() -> None:
    queue, running = open_queue()
    waiter = asyncio.create_task(wait_until_left(queue.enter(BATCH)))
    await asyncio.sleep(0)
    running.release()  # granted, and cancelled before the waiter could wake
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert queue.num_outstanding("a") == 0


async def test_a_slot_that_comes_for_somebody_who_waits_no_more_comes_back() -> None:
    queue, running = open_queue()
    waiter = asyncio.create_task(wait_until_left(queue.enter(BATCH)))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    running.release()
    assert queue.num_outstanding("a") == 0
