"""Having the databases alone: for the length of a command, or while a control plane runs.

A server that restarts ends every connection, and the locks with them. A control plane does not end
for that: it takes them again as soon as the server answers. Only one that finds somebody else there
has lost its place, and must not decide anything more.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

import structlog
from sqlalchemy.exc import DBAPIError

from controlplane.store.connection import DatabaseKind
from controlplane.store.database_lock import WAIT_SECONDS, DatabaseInUseError, DatabaseLock
from controlplane.store.database_url import sqlite_path
from controlplane.store.file_lock import FileLock
from controlplane.store.schema import UnreachableError

_LOOK_SECONDS = 1.0
_STOP_SECONDS = 2.0
_log = structlog.get_logger(__name__)


HeldLock = DatabaseLock | FileLock


@contextmanager
def held_locks(
    urls: Mapping[DatabaseKind, str], purpose: str, wait_seconds: float = WAIT_SECONDS
) -> Iterator[list[HeldLock]]:
    """Inside, nobody else holds them, from whatever state directory or machine.

    Raises DatabaseInUseError and UnreachableError.
    """
    with ExitStack() as stack:
        locks = [_create_lock(url, kind, purpose) for kind, url in urls.items()]
        for lock in locks:
            stack.callback(lock.release)
            lock.acquire(wait_seconds)
        yield locks


def _create_lock(url: str, kind: DatabaseKind, purpose: str) -> HeldLock:
    """Of a file beside it, of a server by the server itself."""
    path = sqlite_path(url)
    if path is None:
        return DatabaseLock(url, kind, purpose)
    return FileLock(path, url, kind, purpose)


class LockWatch:
    """Looks after held locks in a thread of its own, which alone uses them meanwhile."""

    def __init__(
        self,
        locks: list[HeldLock],
        on_taken: Callable[[], None],
        look_seconds: float = _LOOK_SECONDS,
        wait_seconds: float = WAIT_SECONDS,
        on_change: Callable[[DatabaseKind, bool], None] = lambda kind, is_held: None,
    ) -> None:
        """`on_taken` is called in that thread, once, when somebody else has a database now;
        `on_change` likewise, each time that one is lost (False) or had again (True)."""
        self._locks = locks
        self._on_taken = on_taken
        self._on_change = on_change
        self._look_seconds = look_seconds
        self._wait_seconds = wait_seconds
        self._lost: set[DatabaseKind] = set()
        self._taken: DatabaseInUseError | None = None
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="database-locks", daemon=True)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """For the length of the block. Raises DatabaseInUseError at its end when a lock was lost
        to somebody else."""
        if self._locks:
            self._thread.start()
        try:
            yield
        finally:
            self._is_stopping.set()
            if self._thread.is_alive():
                self._thread.join(_STOP_SECONDS)
        if self._taken is not None:
            raise self._taken

    def _watch(self) -> None:
        while not self._is_stopping.wait(self._look_seconds):
            try:
                for lock in self._locks:
                    self._look_after(lock)
            except DatabaseInUseError as error:
                self._taken = error
                _log.error("the database was taken over; ending", error=str(error))
                self._on_taken()
                return

    def _look_after(self, lock: HeldLock) -> None:
        """Raises DatabaseInUseError."""
        if lock.is_held():
            return
        if lock.kind not in self._lost:
            self._lost.add(lock.kind)
            _log.warning("the lock on a database is lost; taking it again", kind=lock.kind.value)
            self._on_change(lock.kind, False)
        try:
            lock.acquire(self._wait_seconds)
        except (UnreachableError, DBAPIError):
            return  # the server is away; the next look tries again
        self._lost.discard(lock.kind)
        _log.info("the lock on a database is held again", kind=lock.kind.value)
        self._on_change(lock.kind, True)
