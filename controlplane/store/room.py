"""How large a database is, and whether there is room for more.

SQLite shares its disk with whatever lies beside it, and the config database usually does. So
request data is refused while something is left, and config never notices. What is asked for is
looked at under the write lock, where nobody else takes the same room, and with what SQLite's log
(`-wal`) holds: that lies on the disk twice once it is copied into the file.

The log can grow by more than is stored: while somebody reads for long, a backup for one, nothing
of it can be used again. So what removes data waits for such a reader where room is short.

PostgreSQL is asked only: its disk is on another machine.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, Engine, Table, func, literal, select, text
from sqlalchemy.exc import DBAPIError

from controlplane.store.connection import DatabaseKind
from controlplane.store.database_url import place_of, sqlite_path
from controlplane.store.schema import metadata_of

DEFAULT_RESERVE_BYTES = 128 * 2**20
_NO_ROOM_SQLITE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE, sqlite3.SQLITE_IOERR_SHMSIZE}
)
_NO_ROOM_POSTGRESQL = "53100"  # disk_full
_SHRINK_AT_BYTES = 64 * 2**20
_PAGES_PER_STEP = 2000
_INCREMENTAL = 2
_ANALYZED_ROWS = 1000
_SAMPLED_ROWS = 500
_WRITTEN_PER_BYTE = 2  # to the log, and from there to the file
_EMPTYING_MILLISECONDS = 200
_LOG_SHARE = 4
"""While room is short, removing may take this part of the reserve for the log."""
_ROW_OVERHEAD_BYTES = 28  # header and pointer of a row in PostgreSQL's pages
_TABLE_SIZE = text(
    "SELECT pg_total_relation_size(relid) AS total, pg_table_size(relid) AS heap, "
    "n_live_tup AS living FROM pg_stat_user_tables "
    "WHERE schemaname = current_schema() AND relname = :name"
)


class NoRoomError(Exception):
    """Request data was not stored, because its disk is full. The message says what to do."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"{why}; nothing was stored. Gateways send their records again: they keep them on "
            f"their own disk and, while that takes none, some in memory; what goes beyond is lost "
            f"and counted. Make room, or keep less: see the runbook request-database-full"
        )


class LogTooLongError(Exception):
    """Nothing more is removed for now: the room that it takes for a while is not there."""


@dataclass(slots=True)
class RoomKeeper:
    """Refuses request data while there is no room for it, and remembers why. Threads share it."""

    url: str
    reserve_bytes: int = DEFAULT_RESERVE_BYTES
    """Below an SQLite file so much is left free for config."""
    num_refusals: int = 0
    """Deliveries refused since the start of this process."""
    refusal: str | None = None
    """Why the last delivery was refused; None when it was not."""

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Around what adds request data. Raises NoRoomError, also for a disk that became full."""
        try:
            self._check()
            yield
        except NoRoomError as error:
            raise self._note(error) from error
        except DBAPIError as error:
            if not is_out_of_room(error):
                raise
            full = f"the request database {place_of(self.url)} says that its disk is full"
            raise self._note(NoRoomError(full)) from error
        else:
            self.refusal = None

    def check(self, connection: Connection, num_bytes: int) -> None:
        """Before `num_bytes` are added by the transaction of `connection`, which holds the write
        lock. Raises NoRoomError. Where nothing is kept for config, the disk itself says when."""
        if connection.dialect.name == "sqlite" and self.reserve_bytes > 0:
            self._check(_bytes_still_to_copy(connection, self.url) + num_bytes * _WRITTEN_PER_BYTE)

    def check_removal(self, engine: Engine) -> None:
        """Before a part of the data is removed. Raises LogTooLongError."""
        path = sqlite_path(self.url)
        if path is None:
            return
        log, free = _size_of(path.with_name(f"{path.name}-wal")), free_bytes(path.parent)
        is_short = free < self.reserve_bytes and log > self.reserve_bytes // _LOG_SHARE
        if is_short and not _empty_log(engine):
            raise LogTooLongError(
                f"{path}-wal has grown to {log >> 20} MiB, because somebody reads for long (a "
                f"backup?), and {free >> 20} MiB are free: nothing more is removed until that ends"
            )

    def _check(self, num_promised: int = 0) -> None:
        path = sqlite_path(self.url)
        if path is None:
            return
        free = free_bytes(path.parent)
        if free - num_promised < self.reserve_bytes:
            taken = f", this delivery would take {num_promised >> 10} KiB" if num_promised else ""
            raise NoRoomError(
                f"the disk below {path} has {free >> 20} MiB free{taken}, and the last "
                f"{self.reserve_bytes >> 20} MiB are kept for config"
            )

    def _note(self, error: NoRoomError) -> NoRoomError:
        self.num_refusals += 1
        self.refusal = str(error)
        return error


def _bytes_still_to_copy(connection: Connection, url: str) -> int:
    """By how much the file grows when the log is copied into it."""
    path = sqlite_path(url)
    assert path is not None, "only asked on SQLite"
    whole = _pragma(connection, "page_count") * _pragma(connection, "page_size")
    return max(0, whole - _size_of(path))


def _empty_log(engine: Engine) -> bool:
    """Copy the log into the file and give its room back; False where a reader still needs it."""
    with engine.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        [before] = driver.execute("PRAGMA busy_timeout").fetchone()
        # Whoever wants to write waits as well, so not for long.
        driver.execute(f"PRAGMA busy_timeout = {_EMPTYING_MILLISECONDS}")
        try:
            [is_busy, *_] = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        finally:
            driver.execute(f"PRAGMA busy_timeout = {before}")
    return not is_busy


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def free_bytes(folder: Path) -> int:
    """What an ordinary user may still write there."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def is_out_of_room(error: DBAPIError) -> bool:
    """Whether a statement failed because there was no room for what it wrote."""
    original = error.orig
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", None)
        return code in _NO_ROOM_SQLITE or "disk is full" in str(original)
    return getattr(original, "sqlstate", None) == _NO_ROOM_POSTGRESQL


def used_bytes(connection: Connection) -> int:
    """What the request data takes up, without what removed data left free.

    On PostgreSQL an estimate, because there removed rows keep their place until new ones take
    it: living rows, times their present size, times what indexes add.
    """
    if connection.dialect.name == "sqlite":
        used = _pragma(connection, "page_count") - _pragma(connection, "freelist_count")
        return used * _pragma(connection, "page_size")
    return sum(
        _living_bytes(connection, table)
        for table in metadata_of(DatabaseKind.REQUESTS).sorted_tables
    )


def _living_bytes(connection: Connection, table: Table) -> int:
    found = connection.execute(_TABLE_SIZE, {"name": table.name}).first()
    if found is None or not found.living:
        return 0
    sample = select(table).limit(_SAMPLED_ROWS).subquery()
    width = sum(
        (func.coalesce(func.pg_column_size(column), 0) for column in sample.columns),
        start=literal(_ROW_OVERHEAD_BYTES),
    )
    average = connection.execute(select(func.avg(width))).scalar() or 0
    return int(found.living * float(average) * found.total / max(found.heap, 1))


def give_back(connection: Connection) -> int:
    """On SQLite, return some of what removed data left free to the disk. Returns bytes; 0: done.

    Only a database that was created for it can: others use the place again themselves.
    """
    if connection.dialect.name != "sqlite" or _pragma(connection, "auto_vacuum") != _INCREMENTAL:
        return 0
    page_size, before = _pragma(connection, "page_size"), _pragma(connection, "freelist_count")
    if before * page_size < _SHRINK_AT_BYTES:
        return 0
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    # It frees a page for every step, and only a script is stepped to its end. That commits first,
    # which harms nobody: nothing was written yet.
    driver.executescript(f"PRAGMA incremental_vacuum({_PAGES_PER_STEP})")
    return (before - _pragma(connection, "freelist_count")) * page_size


def refresh_statistics(connection: Connection) -> None:
    """On SQLite, look at a sample of the request data, so that a list takes the narrowest index.

    PostgreSQL does so by itself.
    """
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(f"PRAGMA analysis_limit = {_ANALYZED_ROWS}")
        connection.exec_driver_sql("ANALYZE requests")
        connection.exec_driver_sql("ANALYZE minute_counts")


def _pragma(connection: Connection, name: str) -> int:
    return int(connection.exec_driver_sql(f"PRAGMA {name}").scalar_one())
