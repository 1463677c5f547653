"""Sends away whoever waited too long in a queue, at the pace of who looks."""

import math

from dataplane.queueing.queue import DeploymentQueue
from dataplane.simulation.timeline import Timeline


class QueueExpiry:
    """Looks at deadlines at multiples of `every_seconds`, and only when one may have passed."""

    def __init__(self, queue: DeploymentQueue, timeline: Timeline, every_seconds: float) -> None:
        self._queue = queue
        self._timeline = timeline
        self._every = every_seconds
        self._expires_at = math.inf

    def watch(self) -> None:
        """Somebody came, or replicas changed."""
        due = self._queue.next_expiry_at
        if due is None:
            return
        at = max(self._timeline.now, math.ceil(due / self._every) * self._every, due)
        if at < self._expires_at:
            self._expires_at = at
            self._timeline.at(at, self._expire)

    def _expire(self) -> None:
        if self._timeline.now < self._expires_at:
            return  # one that was put earlier for later
        self._expires_at = math.inf
        self._queue.expire()
        self.watch()
