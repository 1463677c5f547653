"""What must be done is done before a cancellation goes on."""

import asyncio

import pytest

from dataplane.gateway.outlasting import outlast

pytestmark = pytest.mark.anyio


async def test_a_cancelled_task_first_gets_what_it_waits_for() -> None:
    may_end = asyncio.Event()
    got: list[str] = []

    async def work() -> str:
        await may_end.wait()
        return "done"

    async def waiter() -> None:
        got.append(await outlast(work()))
        await asyncio.sleep(0)
        got.append("went on after the cancellation")

    task = asyncio.create_task(waiter())
    await asyncio.sleep(0)
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    assert not task.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert got == ["done"]


async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        await outlast(work())
