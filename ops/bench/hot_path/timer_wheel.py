"""One timer for all streams: what is due is looked up by its tick, however many wait."""

import math
from collections import defaultdict
from typing import Generic, TypeVar

Item = TypeVar("Item")


class TimerWheel(Generic[Item]):
    """Items by the tick at which they are due; never early, at most one tick late."""

    def __init__(self, tick_seconds: float, now: float) -> None:
        self._tick_seconds = tick_seconds
        self._due: defaultdict[int, list[Item]] = defaultdict(list)
        self._next_tick = math.floor(now / tick_seconds) + 1

    def add(self, item: Item, at: float) -> None:
        """`item` is due at `at`; one that is due already comes with the next tick."""
        self._due[max(math.ceil(at / self._tick_seconds), self._next_tick)].append(item)

    def take_due(self, now: float) -> list[Item]:
        """All that is due by now, in order of its ticks."""
        due: list[Item] = []
        last_tick = math.floor(now / self._tick_seconds)
        while self._next_tick <= last_tick:
            due += self._due.pop(self._next_tick, ())
            self._next_tick += 1
        return due
