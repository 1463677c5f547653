"""Requests that wait, and batches of which nothing comes."""

from collections.abc import Iterator
from itertools import pairwise

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import late
from dataplane.engine_metrics.signal import Signal

FEW_WAIT = 0.15
"""Of the batch: they are in with the next steps."""


def waiting(now: Activity) -> Iterator[str]:
    """Requests that wait and do not come in."""
    backlog = now.backlog
    if backlog is None or backlog.last.value <= 0:
        return
    batch = max(late(now.running), 1.0) if now.running is not None else 1.0
    waits = late(backlog)
    is_passing = len(backlog.readings) > 2 and backlog.min == 0 and waits <= FEW_WAIT * batch
    is_little = waits <= max(2.0, FEW_WAIT * batch) and backlog.min <= 1
    queue = now.window.find_histogram(Signal.QUEUE_TIME)
    wait = None if queue is None else queue.mean
    # Whoever waits still is in no histogram of waits that are over.
    is_short = wait is not None and wait < 1.0 and not _only_grows(backlog)
    if not (is_passing or is_little or is_short):
        yield f"{backlog.origin.name} {backlog.last.raw}: they wait"


def _only_grows(backlog: Series) -> bool:
    """More wait at each reading than before, and none was seen to come in."""
    steps = [after - before for before, after in pairwise(backlog.values)]
    return bool(steps) and min(steps) >= 0 and sum(steps) >= _MANY


_MANY = 3.0
"""Requests more than at the first. One or two are passing by."""


def standstill(now: Activity) -> Iterator[str]:
    """Requests in the batch of which nothing comes."""
    running = now.running
    if running is not None and running.last.value > 0 and now.is_moving is False:
        yield f"{running.origin.name} {running.last.raw}, and nothing moves"


def stood(now: Activity) -> Iterator[str]:
    """Requests waited while nothing ran, in readings next to one another, also long before."""
    running, waiting = now.running, now.waiting
    if running is None or waiting is None:
        return
    before = False
    for reading in running.readings:
        queue = waiting.at(reading.at)
        stands = reading.value == 0 and queue is not None and queue.value > 0
        if stands and before and queue is not None:
            yield f"{running.origin.name} {reading.raw} while {waiting.origin.name} {queue.raw}"
            return
        before = stands
