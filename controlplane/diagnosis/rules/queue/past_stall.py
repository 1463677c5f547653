"""A time in which requests waited while nothing ran, that is over by the end of what was seen.

Statistics lines fall silent while nothing moves, so that it lasts until the next reading.
"""

from controlplane.diagnosis.citing import seconds
from controlplane.diagnosis.rules.queue.stuck import LEAST_SECONDS
from controlplane.diagnosis.views.activity import Activity

_FEWEST = 2
"""Readings in which it stood: a single one may stand between two steps."""
_JUST_BEFORE = 0.001


def past_stall(now: Activity) -> tuple[float, str] | None:
    """Just before which moment it ended, and how it went on; None where there was none, or where it
    lasts."""
    running, waiting = now.running, now.waiting
    if running is None or waiting is None:
        return None
    longest: tuple[float, float] | None = None
    since, stood = 0.0, 0
    for reading in running.readings:
        queue = waiting.at(reading.at)
        if reading.value == 0 and queue is not None and queue.value > 0:
            since = reading.at if stood == 0 else since
            stood += 1
            continue
        if stood >= _FEWEST and reading.at - since >= LEAST_SECONDS:
            found = (since, reading.at)
            longest = max(longest or found, found, key=lambda each: each[1] - each[0])
        stood = 0
    if longest is None:
        return None
    start, end = longest
    after = running.at(end)
    goes_on = (
        f"after {seconds(end - start)} s without a step it goes on: {running.origin.name} 0 -> "
        f"{'' if after is None else after.raw}"
    )
    return end - _JUST_BEFORE, goes_on
