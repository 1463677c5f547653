"""The thread that removes request data when its time is over, a little at a time."""

import threading
import time
from collections.abc import Callable
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError

from controlplane.store.database import Database
from controlplane.store.removal import RemovedData, list_removed, oldest_of, remove_step
from controlplane.store.retention import Removal, Retention, plan_by_age, plan_by_size
from controlplane.store.room import LogTooLongError, give_back, refresh_statistics, used_bytes
from dataplane.clock import WallClock, wall_clock

_PASS_SECONDS = 60.0
_STEP_ROWS = 1000
_REFRESH_NS = 3600 * 10**9
_PAUSE_SECONDS = 0.05
"""Between two steps, so that gateways' records come in between."""
_log = structlog.get_logger(__name__)


class RetentionWorker:
    """Passes over the request database until it is stopped; an error ends a pass, never it."""

    def __init__(
        self,
        database: Database,
        retention: Retention,
        clock: WallClock = wall_clock,
        pass_seconds: float = _PASS_SECONDS,
    ) -> None:
        self.retention = retention
        self.num_failed_passes = 0
        self.error: str | None = None
        """Why the last pass failed; None when it did not."""
        self.num_bytes: int | None = None
        """Size of the request data when it was last measured; None: not yet."""
        self.removed: list[RemovedData] = []
        """What was ever removed, as of the last pass."""
        self._refreshed_at_unix_ns = 0
        self._database = database
        self._clock = clock
        self._pass_seconds = pass_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Begin the first pass."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step under way."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def do_pass(self) -> int:
        """Remove all that is due; returns how many rows.

        Raises SQLAlchemyError, and LogTooLongError where it has to wait.
        """
        num_removed = 0
        with self._database.reading() as session:
            oldest = oldest_of(session)
        for removal in plan_by_age(self.retention, oldest, self._clock()):
            num_removed += self._repeat(partial(self._step, removal))
        num_removed += self._repeat(self._shrink_step)
        self._repeat(self._give_back)
        self._refresh_statistics()
        with self._database.reading() as session:
            self.removed = list_removed(session)
        return num_removed

    def _run(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                num_removed = self.do_pass()
            # A full disk, somebody who reads for long, or a server that is away: the next pass
            # tries again, and until then the error is counted and shown.
            except (SQLAlchemyError, LogTooLongError) as error:
                self.num_failed_passes += 1
                self.error = f"{type(error).__name__}: {getattr(error, 'orig', None) or error}"
                _log.warning("request data could not be removed", error=self.error)
            else:
                self.error = None
                if num_removed:
                    seconds = round(time.monotonic() - started, 1)
                    _log.info("request data removed", num_rows=num_removed, seconds=seconds)
            self._stopping.wait(self._pass_seconds)

    def _repeat(self, step: Callable[[], int]) -> int:
        """Do `step` until it has nothing to do any more; returns the sum of what it returned."""
        total = 0
        while not self._stopping.is_set():
            self._database.room.check_removal(self._database.engine)
            if not (done := step()):
                break
            total += done
            self._stopping.wait(_PAUSE_SECONDS)
        return total

    def _step(self, removal: Removal) -> int:
        with self._database.session() as session:
            return remove_step(session, removal, _STEP_ROWS, self._clock())

    def _shrink_step(self) -> int:
        with self._database.reading() as session:
            self.num_bytes = used_bytes(session.connection())
            oldest = oldest_of(session)
        removal = plan_by_size(self.retention, oldest, self.num_bytes, self._clock())
        return 0 if removal is None else self._step(removal)

    def _refresh_statistics(self) -> None:
        now = self._clock()
        if now - self._refreshed_at_unix_ns > _REFRESH_NS:
            with self._database.session() as session:
                refresh_statistics(session.connection())
            self._refreshed_at_unix_ns = now

    def _give_back(self) -> int:
        with self._database.session() as session:
            return give_back(session.connection())
