"""One database and its transactions.

There are two, each with a schema and a history of its own: config (revisions, deployments,
replicas) and requests (counts, rows, records), which can be pruned or lost without harming
config. Every change happens inside `Database.session()`, the unit of work: it commits at
its end or rolls everything back; repositories flush and never commit.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.orm import Session, sessionmaker

from controlplane.store.connection import (
    DatabaseKind,
    create_database_engine,
    lock_for_writing,
    reading_options,
    sqlite_path,
    sqlite_url,
)
from controlplane.store.revision_cache import RevisionCache
from controlplane.store.room import DEFAULT_RESERVE_BYTES, RoomKeeper
from controlplane.store.schema import (
    SchemaError,
    SchemaReport,
    SchemaState,
    UnreachableError,
    inspect_schema,
)
from controlplane.store.upgrade import UpgradeError, upgrade_database

__all__ = [
    "Database",
    "DatabaseKind",
    "SchemaError",
    "SchemaReport",
    "SchemaState",
    "UnreachableError",
    "UpgradeError",
    "create_or_open_database",
    "inspect_schema",
    "open_database",
    "sqlite_path",
    "sqlite_url",
    "upgrade_database",
]


class Database:
    """An open database. Threads share it; sessions belong to the thread that opened them."""

    def __init__(self, engine: Engine, kind: DatabaseKind, room: RoomKeeper) -> None:
        self.engine = engine
        self.kind = kind
        self.room = room
        known = RevisionCache().as_info()
        self._writing = sessionmaker(engine, expire_on_commit=False, info=known)
        self._reading = sessionmaker(
            engine.execution_options(**reading_options(engine)),
            expire_on_commit=False,
            autoflush=False,
            info=known,
        )

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A unit of work: commits at its end, rolls back when the block raises.

        What was loaded stays readable after the commit.
        """
        with self._writing.begin() as session:
            if self.kind is DatabaseKind.CONFIG:
                # What is decided here rests on what was read here, as SQLite guarantees anyway.
                lock_for_writing(session.connection(), self.kind)
            yield session

    @contextmanager
    def adding(self, num_bytes: int) -> Iterator[Session]:
        """A unit of work that adds request data, which came as `num_bytes`.

        Raises NoRoomError when there is no room.
        """
        with self.room.guarding(), self.session() as session:
            self.room.check(session.connection(), num_bytes)
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """One consistent view of the data. The database refuses to write in it."""
        with self._reading() as session:
            yield session

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def open_database(
    url: str, kind: DatabaseKind, reserve_bytes: int = DEFAULT_RESERVE_BYTES
) -> Database:
    """Open a database whose schema is exactly the one this code knows.

    Request data is refused while less than `reserve_bytes` are free below an SQLite file.
    Raises SchemaError, saying what to run, when it is absent, older, newer or not ours, and
    UnreachableError when its server does not answer.
    """
    report = inspect_schema(url, kind)
    if report.state is not SchemaState.CURRENT:
        raise SchemaError(report)
    return Database(create_database_engine(url), kind, RoomKeeper(url, reserve_bytes))


def create_or_open_database(url: str, kind: DatabaseKind) -> Database:
    """Open a database, creating it when there is none yet; an existing one is left as it is.

    Raises SchemaError as `open_database` does.
    """
    if inspect_schema(url, kind).state is SchemaState.ABSENT:
        upgrade_database(url, kind)
    return open_database(url, kind)
