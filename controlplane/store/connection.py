"""Connections: the two kinds of database, SQLite and PostgreSQL set up for concurrency.

No engine puts a statement's parameters into errors: they may be digests and hashes, and errors
are logged.

On SQLite a transaction that may write takes the write lock at its start. One that reads
first and locks later fails the moment another writer came between, and no timeout helps it.
"""

import sqlite3
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from controlplane.store.database_url import parse_url, sqlite_path, sqlite_url

__all__ = [
    "DatabaseKind",
    "create_bare_engine",
    "create_database_engine",
    "database_urls",
    "default_paths",
    "lock_for_writing",
    "reading_options",
    "sqlite_path",
    "sqlite_url",
    "words_of",
]

_BUSY_TIMEOUT_MILLISECONDS = 10_000
_CONNECT_SECONDS = 10
_MAX_LOG_BYTES = 16 * 2**20
_READS_ONLY = "pilothouse_reads_only"


class DatabaseKind(StrEnum):
    """Which of the two databases."""

    CONFIG = "config"
    REQUESTS = "requests"


def create_bare_engine(url: str, options: Mapping[str, str] = MappingProxyType({})) -> Engine:
    """An engine that changes nothing about what it connects to, and keeps no connection open.

    `create_database_engine` would switch any SQLite file to write-ahead logging. `options` are
    for PostgreSQL's client library, where the URL does not say otherwise.
    """
    wanted = _with_defaults(parse_url(url), options)
    return create_engine(wanted, poolclass=NullPool, hide_parameters=True)


def create_database_engine(url: str, enforces_foreign_keys: bool = True) -> Engine:
    """An engine for `url`, with SQLite set up for several threads and processes.

    `enforces_foreign_keys` concerns SQLite alone; others always enforce them.
    """
    if sqlite_path(url) is None:
        return _postgresql_engine(parse_url(url))
    # As many connections as FastAPI has threads, so that nobody waits for the pool.
    engine = create_engine(url, pool_size=8, max_overflow=40, hide_parameters=True)
    event.listen(engine, "connect", _set_up_sqlite)
    if enforces_foreign_keys:
        event.listen(engine, "connect", _enforce_foreign_keys)
    event.listen(engine, "begin", _begin_on_sqlite)
    return engine


def _postgresql_engine(url: URL) -> Engine:
    # A server takes 100 connections by default, and two control planes may share it.
    engine = create_engine(
        _with_defaults(url), pool_pre_ping=True, pool_size=5, max_overflow=15, hide_parameters=True
    )
    event.listen(engine, "connect", _set_up_postgresql)
    return engine


def _with_defaults(url: URL, more: Mapping[str, str] = MappingProxyType({})) -> URL:
    if url.get_backend_name() != "postgresql":
        return url
    defaults = {"connect_timeout": str(_CONNECT_SECONDS), "application_name": "pilothouse", **more}
    return url.set(query={**defaults, **url.query})


def lock_for_writing(connection: Connection, kind: DatabaseKind) -> None:
    """On PostgreSQL, let one transaction at a time write to a database of this kind.

    Released when the transaction ends. SQLite's transactions took their lock when they began.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(
            text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"pilothouse.{kind}"}
        )


def reading_options(engine: Engine) -> dict[str, Any]:
    """Execution options of a transaction that only reads, from one consistent view."""
    if engine.dialect.name == "postgresql":
        return {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    return {_READS_ONLY: True}


def _set_up_postgresql(connection: Any, _record: object) -> None:
    # As long as SQLite waits for its lock: a clear error is better than a stuck control plane.
    connection.execute(f"SET lock_timeout = {_BUSY_TIMEOUT_MILLISECONDS}")
    connection.commit()


def _set_up_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions by itself: _begin_on_sqlite does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MILLISECONDS}")
    # In a new database only: what is removed can be given back to the disk, a little at a time.
    # In an existing one it changes nothing, and would wait for whoever writes.
    if cursor.execute("PRAGMA page_count").fetchone()[0] == 0:
        cursor.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _switch_to_wal(cursor)
    cursor.execute("PRAGMA synchronous = NORMAL")
    # A log that had to grow is cut again when it begins anew, or it would keep that room for ever.
    cursor.execute(f"PRAGMA journal_size_limit = {_MAX_LOG_BYTES}")
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


def database_urls(
    state_dir: Path, config_url: str | None, requests_url: str | None
) -> dict[DatabaseKind, str]:
    """The URL of each database: the one given, or that of a file in the state directory."""
    given = {DatabaseKind.CONFIG: config_url, DatabaseKind.REQUESTS: requests_url}
    paths = default_paths(state_dir)
    return {kind: given[kind] or sqlite_url(path) for kind, path in paths.items()}


def default_paths(state_dir: Path) -> dict[DatabaseKind, Path]:
    """Where a state directory keeps its databases."""
    return {kind: state_dir / f"{kind}.db" for kind in DatabaseKind}


def words_of(error: DBAPIError) -> str:
    """What the database itself said, in one line: servers answer in several, with tabs."""
    lines = (" ".join(line.split()) for line in str(error.orig).splitlines())
    return "; ".join(line for line in lines if line).rstrip("?.")
