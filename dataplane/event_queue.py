"""The events of one request on their way to who takes them, with a bound on what waits there.

Whoever puts does not wait: it is told when too much waits, and when that was taken, and makes
the engine wait by the means that it has.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from dataplane.engine import EngineEvent, EngineUnavailableError

MAX_WAITING = 256
"""Events. A gateway that is busy for some milliseconds stays below it."""


class EventQueue:
    """For one putter and one taker, in one event loop."""

    def __init__(
        self, on_turn: Callable[[bool], None] | None = None, max_waiting: int = MAX_WAITING
    ) -> None:
        """`on_turn` is called with True when more than `max_waiting` wait, and with False once
        half of them were taken."""
        self.is_full = False
        self._items: deque[EngineEvent | EngineUnavailableError] = deque()
        self._taker: asyncio.Future[None] | None = None
        self._putter: asyncio.Future[None] | None = None
        self._on_turn = on_turn
        self._max_waiting = max_waiting

    def put(self, item: EngineEvent | EngineUnavailableError) -> None:
        """Also beyond the bound: what is there must be kept somewhere."""
        self._items.append(item)
        if self._taker is not None:
            _set(self._taker)
        if not self.is_full and len(self._items) > self._max_waiting:
            self._turn(True)

    @property
    def is_empty(self) -> bool:
        """There is nothing to take now."""
        return not self._items

    async def wait(self) -> None:
        """Until there is something to take."""
        while not self._items:
            self._taker = asyncio.get_running_loop().create_future()
            try:
                await self._taker
            finally:
                self._taker = None

    def take(self) -> EngineEvent:
        """The next event; there must be one. Raises EngineUnavailableError where that was put."""
        item = self._items.popleft()
        if self.is_full and len(self._items) <= self._max_waiting // 2:
            self._turn(False)
        if isinstance(item, EngineUnavailableError):
            raise item
        return item

    async def room(self) -> None:
        """Wait until it is not full."""
        if self.is_full:
            self._putter = asyncio.get_running_loop().create_future()
            await self._putter

    def _turn(self, is_full: bool) -> None:
        self.is_full = is_full
        if not is_full and self._putter is not None:
            _set(self._putter)
        if self._on_turn is not None:
            self._on_turn(is_full)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
