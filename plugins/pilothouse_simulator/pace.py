"""Letting time pass, faster or slower than it is said to: all that a simulated step does."""

import time
from typing import Protocol

from dataplane.clock import MonotonicClock, monotonic_clock


class Waiting(Protocol):
    """A clock, and a way to wait on it."""

    def now(self) -> float:
        """Seconds."""
        ...

    def until(self, when: float) -> None:
        """Return at `when`, or at once where it has passed."""
        ...


class RealWaiting:
    """The process's own time."""

    def __init__(self, clock: MonotonicClock = monotonic_clock) -> None:
        self._clock = clock

    def now(self) -> float:
        """Seconds."""
        return self._clock()

    def until(self, when: float) -> None:
        """Sleeps: no other thread is held up."""
        while (left := when - self._clock()) > 0:
            time.sleep(left)


class Pace:
    """Waits for simulated seconds, each of which takes `time_scale` of the waiting's own."""

    def __init__(self, waiting: Waiting, time_scale: float) -> None:
        self._waiting = waiting
        self._time_scale = time_scale

    def after(self, seconds: float, since: float | None = None) -> float:
        """When `seconds` will have passed since `since`, or since now; now where they have."""
        now = self._waiting.now()
        return max(now, (now if since is None else since) + seconds * self._time_scale)

    def until(self, when: float) -> None:
        """Return at `when`."""
        self._waiting.until(when)

    def wait(self, seconds: float) -> None:
        """Return when `seconds` have passed."""
        self.until(self.after(seconds))
