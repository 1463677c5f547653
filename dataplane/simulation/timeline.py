"""Virtual time: what is to happen, in order, and what time it is meanwhile."""

import heapq
import math
from collections.abc import Callable

Action = Callable[[], object]


class TimelineError(Exception):
    """Something was put before the present: a bug in the caller."""


class Timeline:
    """Runs actions at their times; those of one time in the order in which they were put.

    Times are in whatever unit the simulation's costs are: seconds for a fleet. They may be
    integers, and then nothing is ever rounded.
    """

    def __init__(self) -> None:
        self.now: float = 0
        self._num_put = 0
        self._to_come: list[tuple[float, int, Action]] = []

    def __call__(self) -> float:
        """What time it is: a timeline is the clock of what it runs."""
        return self.now

    @property
    def next_at(self) -> float | None:
        """When something happens next, or None."""
        return self._to_come[0][0] if self._to_come else None

    def at(self, when: float, action: Action) -> None:
        """Do `action` at `when`. Raises TimelineError for a time that has passed."""
        if when < self.now:
            raise TimelineError(f"it is {self.now} already, and something was put at {when}")
        self._num_put += 1
        heapq.heappush(self._to_come, (when, self._num_put, action))

    def after(self, delay: float, action: Action) -> None:
        """Do `action` when `delay` has passed. Raises TimelineError for a negative one."""
        if delay < 0:
            raise TimelineError(
                f"{delay} is a time that has passed; put nothing before the present"
            )
        self._num_put += 1
        heapq.heappush(self._to_come, (self.now + delay, self._num_put, action))

    def run(self, until: float | None = None) -> None:
        """Let time pass until nothing is left to happen, or `until`: what is put there happens."""
        to_come, pop = self._to_come, heapq.heappop
        last = math.inf if until is None else until
        while to_come and to_come[0][0] <= last:
            self.now, _, action = pop(to_come)
            action()
        if until is not None:
            self.now = max(self.now, until)
