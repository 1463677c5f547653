"""One control plane at a time has the files of an SQLite database, from whatever state directory.

The lock is a file beside the database (`config.db-config-lock`) and never the database itself: a
process that closes any handle on an SQLite file gives up SQLite's own locks on it. The kernel lets
ours go with the process, so one that was killed leaves nothing to clear away; the empty file stays,
because whoever removed it could remove it under the next one. Links are followed first.

Whoever only reads or saves a database (`db check`, `db backup`) takes none.
"""

import fcntl
import os
import socket
import time
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

from controlplane.store.connection import DatabaseKind
from controlplane.store.database_lock import WAIT_SECONDS, DatabaseInUseError
from controlplane.store.schema import UnreachableError

_LOOK_SECONDS = 0.05


class UnwritableLockError(UnreachableError):
    """The lock beside the database cannot be made, so nobody can be kept from its files."""

    def __init__(self, path: Path, kind: DatabaseKind, why: str) -> None:
        Exception.__init__(
            self,
            f"the {kind} database cannot be locked: {path} cannot be written ({why}). Make its "
            f"folder writable, or name another database with --{kind}-url",
        )
        self.kind = kind


class FileLock:
    """The lock on one SQLite database. One thread at a time uses it."""

    def __init__(self, path: Path, url: str, kind: DatabaseKind, purpose: str) -> None:
        """`purpose` says what the holder is, such as `pilothouse controlplane`."""
        self.url = url
        self.kind = kind
        self._path = lock_path(path, kind)
        self._purpose = purpose
        self._file: TextIOWrapper | None = None

    def acquire(self, wait_seconds: float = WAIT_SECONDS) -> None:
        """Take it, waiting a moment for one who is about to leave.

        Raises DatabaseInUseError, and UnwritableLockError when there is no place for it.
        """
        self.release()
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self._path.open("a+")
        except OSError as error:
            raise UnwritableLockError(self._path, self.kind, error.strerror or "") from error
        try:
            self._take(file, wait_seconds)
        except BaseException:
            file.close()
            raise
        self._file = file

    def is_held(self) -> bool:
        """Until it is released: nobody can take it from a living process."""
        return self._file is not None

    def release(self) -> None:
        """Let it go. Twice is no error."""
        if self._file is not None:
            self._file.truncate(0)  # nobody is named who has left
            self._file.close()
            self._file = None

    def _take(self, file: TextIOWrapper, wait_seconds: float) -> None:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise DatabaseInUseError(self.url, self.kind, _holder(file)) from error
            time.sleep(_LOOK_SECONDS)
        since = datetime.now(UTC)
        file.truncate(0)
        file.write(
            f"{self._purpose} pid {os.getpid()} on {socket.gethostname()}, "
            f"since {since:%Y-%m-%d %H:%M:%S%z}"
        )
        file.flush()


def lock_path(path: Path, kind: DatabaseKind) -> Path:
    """Where the lock of the database at `path` is, under whatever name that was given."""
    real = path.resolve()
    return real.with_name(f"{real.name}-{kind}-lock")


def _holder(file: TextIOWrapper) -> str | None:
    """What it is, its pid and its host, and since when."""
    file.seek(0)
    return file.read().strip() or None
