"""Calls of launchers, off the operator's thread: a queue for each deployment.

A launcher may take its time, or never answer, and that must cost nobody but who waits for it.
Calls of one queue run one after the other, in the order in which they were put; those of
different queues side by side::

    pass:     put ---> queue "chat":   launch chat-1 | launch chat-2
              put ---> queue "other":  end other-7
    threads:  take the first call of a queue that none of them is in
    pass:     settle: what came of them, told on the pass's own thread

A call that takes long keeps its thread, and counts no longer among those that may run at once:
else a few that hang would hold up all. One that failed is refused for a while, longer each time.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from controlplane.operator.backoff import delay_seconds
from dataplane.clock import MonotonicClock

_MAX_AT_ONCE = 32
LATE_SECONDS = 1.0
"""A call that takes longer is told, and another may run beside it."""
_RESOLVED_SECONDS = 5.0
"""What may be tried again and is not within so long is wanted no more."""
_CLOSE_SECONDS = 5.0

_log = structlog.get_logger(__name__)

Action = Callable[[], object]
Then = Callable[[str | None], object]
"""Called with the error, in words; None: there was none."""


@dataclass(slots=True, eq=False)
class _Call:
    queue: str
    what: str
    action: Action
    then: Then
    is_retried: bool
    began_at: float | None = None
    error: str | None = None


@dataclass(slots=True)
class _Failed:
    queue: str
    num_failures: int
    error: str
    retry_at: float


class Calls:
    """One reconciler's: its thread puts and settles, threads of its own run what was put."""

    def __init__(
        self,
        clock: MonotonicClock,
        on_done: Callable[[], None] = lambda: None,
        late_seconds: float = LATE_SECONDS,
    ) -> None:
        """`on_done` is called from any thread when a call ended that nobody waits for."""
        self._clock = clock
        self._on_done = on_done
        self._late_seconds = late_seconds
        self._changed = threading.Condition()
        self._queues: dict[str, deque[_Call]] = {}  # the first of each is the one that runs
        self._ready: deque[str] = deque()
        self._pending: dict[str, _Call] = {}
        self._running: set[_Call] = set()
        self._num_threads = 0
        self._awaited: set[_Call] = set()
        self._done: deque[_Call] = deque()
        self._failed: dict[str, _Failed] = {}
        self._is_closed = False

    def put(
        self,
        queue: str,
        what: str,
        action: Action,
        then: Then,
        *,
        is_retried: bool = True,
        is_awaited: bool = False,
    ) -> bool:
        """Run `action` when all that was put into `queue` before has ended.

        False, and nothing happens, while a call named `what` is under way or not settled, and
        while it waits because it failed (unless not `is_retried`: then nobody tries it again).
        """
        with self._changed:
            failed = self._failed.get(what)
            if what in self._pending or (failed and self._clock() < failed.retry_at):
                return False
            call = self._pending[what] = _Call(queue, what, action, then, is_retried)
            if is_awaited:
                self._awaited.add(call)
            calls = self._queues.setdefault(queue, deque())
            calls.append(call)
            if len(calls) == 1:
                self._ready.append(queue)
            self._start_threads()
        return True

    def is_under_way(self, what: str) -> bool:
        """It was put and is not settled."""
        with self._changed:
            return what in self._pending

    def wait(self, seconds: float) -> None:
        """Until every awaited call has ended, for at most so long; after that none is awaited."""
        with self._changed:
            self._start_threads()
            self._changed.wait_for(lambda: not self._awaited, seconds)
            self._awaited.clear()

    def settle(self) -> None:
        """Tell what came of the calls that ended; what could not be told is told next time."""
        while self._done:
            call = self._done[0]
            call.then(call.error)
            with self._changed:
                self._done.popleft()
                del self._pending[call.what]
                self._note_failure(call)

    def reasons(self) -> dict[str, str]:
        """By queue: what fails or hangs there, and when it is tried again."""
        now = self._clock()
        with self._changed:
            self._failed = {
                what: each
                for what, each in self._failed.items()
                if what in self._pending or now < each.retry_at + _RESOLVED_SECONDS
            }
            told = {
                each.queue: _tell_failed(what, each, now) for what, each in self._failed.items()
            }
            late = [each for each in self._running if self._is_late(each)]
            return told | {each.queue: _tell_late(each, now) for each in late}

    def retries(self) -> dict[str, float]:
        """By queue: in how many seconds the first of its failed calls is tried again."""
        now = self._clock()
        found: dict[str, float] = {}
        with self._changed:
            for each in self._failed.values():
                left = max(0.0, each.retry_at - now)
                found[each.queue] = min(left, found.get(each.queue, left))
        return found

    def close(self) -> None:
        """Begin nothing more. What runs may end within some seconds, and is then left alone."""
        with self._changed:
            self._is_closed = True
            self._ready.clear()
            self._changed.wait_for(
                lambda: all(self._is_late(each) for each in self._running), _CLOSE_SECONDS
            )

    def _note_failure(self, call: _Call) -> None:
        before = self._failed.pop(call.what, None)
        if call.error is None or not call.is_retried:
            return
        number = 1 if before is None else before.num_failures + 1
        if before is None or before.error != call.error:  # else every attempt would say it again
            _log.error("call failed", queue=call.queue, what=call.what, error=call.error)
        retry_at = self._clock() + delay_seconds(number)
        self._failed[call.what] = _Failed(call.queue, number, call.error, retry_at)

    # --- threads: all of what follows is called with the lock held, but for `_run` --------

    def _start_threads(self) -> None:
        num_late = sum(self._is_late(each) for each in self._running)
        room = _MAX_AT_ONCE + num_late - self._num_threads
        for _ in range(min(room, len(self._ready))):
            self._num_threads += 1
            threading.Thread(target=self._run, name="launcher-calls", daemon=True).start()

    def _run(self) -> None:
        """One thread: as long as there is something to run, and not too many others run it."""
        while (call := self._take()) is not None:
            try:
                call.action()
            except Exception as error:  # noqa: BLE001  (a plugin may raise anything)
                call.error = str(error) or type(error).__name__
            self._end(call)

    def _take(self) -> _Call | None:
        with self._changed:
            num_late = sum(self._is_late(each) for each in self._running)
            if not self._ready or self._num_threads > _MAX_AT_ONCE + num_late:
                self._num_threads -= 1
                return None
            call = self._queues[self._ready.popleft()][0]
            call.began_at = self._clock()
            self._running.add(call)
            return call

    def _end(self, call: _Call) -> None:
        with self._changed:
            self._running.discard(call)
            self._done.append(call)
            calls = self._queues[call.queue]
            calls.popleft()
            if not calls:
                del self._queues[call.queue]
            elif not self._is_closed:
                self._ready.append(call.queue)
            wakes = call not in self._awaited
            self._awaited.discard(call)
            self._changed.notify_all()
        if wakes:
            self._on_done()

    def _is_late(self, call: _Call) -> bool:
        return call.began_at is not None and self._clock() - call.began_at > self._late_seconds


def _tell_failed(what: str, failed: _Failed, now: float) -> str:
    left = max(0.0, failed.retry_at - now)
    times = "" if failed.num_failures == 1 else f", {failed.num_failures} times in a row"
    return f"{what}: {failed.error}{times}; tried again in {left:.0f} s"


def _tell_late(call: _Call, now: float) -> str:
    assert call.began_at is not None
    return f"{call.what}: no answer for {now - call.began_at:.0f} s"
