"""Time, passed in: monotonic seconds for durations, UTC nanoseconds for instants."""

import time
from collections.abc import Callable

MonotonicClock = Callable[[], float]
"""Seconds from an arbitrary start; only differences mean something."""

WallClock = Callable[[], int]
"""Nanoseconds since the Unix epoch, UTC."""

monotonic_clock: MonotonicClock = time.monotonic
wall_clock: WallClock = time.time_ns
