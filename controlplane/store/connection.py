"""Connections: the two kinds of database, their URLs, and SQLite set up for concurrency.

On SQLite a transaction that may write takes the write lock at its start. One that reads
first and locks later fails the moment another writer came between, and no timeout helps it.
"""

import sqlite3
import time
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url

_BUSY_TIMEOUT_MILLISECONDS = 10_000
_READS_ONLY = "pilothouse_reads_only"


class DatabaseKind(StrEnum):
    """Which of the two databases."""

    CONFIG = "config"
    REQUESTS = "requests"


def sqlite_url(path: Path) -> str:
    """The URL of the SQLite database in the file at `path`."""
    return URL.create("sqlite", database=str(path.absolute())).render_as_string()


def sqlite_path(url: str) -> Path | None:
    """The file of an SQLite URL, None for other databases.

    Raises ValueError for SQLite in memory: two connections would see two databases.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if not parsed.database or parsed.database == ":memory:" or "mode" in parsed.query:
        raise ValueError(f"{url} names no file; use sqlite:////absolute/path.db")
    return Path(parsed.database)


def create_database_engine(url: str, enforces_foreign_keys: bool = True) -> Engine:
    """An engine for `url`, with SQLite set up for several threads and processes.

    `enforces_foreign_keys` concerns SQLite alone; others always enforce them.
    """
    if sqlite_path(url) is None:
        return create_engine(url, pool_pre_ping=True)
    # As many connections as FastAPI has threads, so that nobody waits for the pool.
    engine = create_engine(url, pool_size=8, max_overflow=40)
    event.listen(engine, "connect", _set_up_sqlite)
    if enforces_foreign_keys:
        event.listen(engine, "connect", _enforce_foreign_keys)
    event.listen(engine, "begin", _begin_on_sqlite)
    return engine


def reading_options(engine: Engine) -> dict[str, Any]:
    """Execution options of a transaction that only reads, from one consistent view."""
    if engine.dialect.name == "postgresql":
        return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    return {_READS_ONLY: True}


def _set_up_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions by itself: _begin_on_sqlite does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MILLISECONDS}")
    _switch_to_wal(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")
    cursor.close()


def _switch_to_wal(cursor: sqlite3.Cursor) -> None:
    """Every process does so when it connects; SQLite waits for no one when two do it at once."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_MILLISECONDS / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def _enforce_foreign_keys(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA foreign_keys = ON").close()


def _begin_on_sqlite(connection: Connection) -> None:
    reads_only = connection.get_execution_options().get(_READS_ONLY, False)
    connection.exec_driver_sql(f"PRAGMA query_only = {'ON' if reads_only else 'OFF'}")
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")


def default_paths(state_dir: Path) -> dict[DatabaseKind, Path]:
    """Where a state directory keeps its databases."""
    return {kind: state_dir / f"{kind}.db" for kind in DatabaseKind}
