"""Work that comes to its end although the task that waits for it is being cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def outlast(work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns or raises. A cancellation that came meanwhile comes at the next wait."""
    task = asyncio.ensure_future(work)
    was_cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            was_cancelled = True
    if was_cancelled and (waiting := asyncio.current_task()) is not None:
        waiting.cancel()
    return task.result()
