"""Events wait within a bound: whoever puts is told when to stop and when to go on."""

import asyncio

import pytest

from dataplane.engine import EngineEvent, EngineUnavailableError
from dataplane.event_queue import EventQueue
from dataplane.lifecycle import EventKind

pytestmark = pytest.mark.anyio


async def get(queue: EventQueue) -> EngineEvent:
    await queue.wait()
    return queue.take()


def token(number: int) -> EngineEvent:
    return EngineEvent(kind=EventKind.TOKENS, num_tokens=number)


async def test_it_turns_full_beyond_its_bound_and_back_at_half_of_it() -> None:
    turns: list[bool] = []
    queue = EventQueue(turns.append, max_waiting=4)
    for number in range(6):
        queue.put(token(number))
    assert turns == [True]
    going_on = asyncio.create_task(queue.room())
    taken = [(await get(queue)).num_tokens for _ in range(3)]
    assert (taken, turns, queue.is_full) == ([0, 1, 2], [True], True)
    await get(queue)
    await asyncio.wait_for(going_on, 1)
    assert turns == [True, False]


async def test_who_waits_is_woken_and_a_loss_is_raised_after_what_came_before() -> None:
    queue = EventQueue()
    waiting = asyncio.create_task(get(queue))
    await asyncio.sleep(0)
    queue.put(token(1))
    queue.put(EngineUnavailableError("r", "it is gone"))
    assert (await waiting).num_tokens == 1
    with pytest.raises(EngineUnavailableError, match="it is gone"):
        await get(queue)


async def test_a_taker_that_was_cancelled_takes_nothing_along() -> None:
    queue = EventQueue()
    waiting = asyncio.create_task(get(queue))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    queue.put(token(1))
    assert (await get(queue)).num_tokens == 1
