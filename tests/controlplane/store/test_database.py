"""Transactions: all or nothing, and many threads at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import Database, create_or_open_database
from controlplane.store.tables import ReplicaTransitionRow, SnapshotVersionRow
from tests.databases import Databases, PostgresqlDatabases


def count(session: Session) -> int:
    return session.scalars(select(func.count()).select_from(SnapshotVersionRow)).one()


def version(number: int) -> SnapshotVersionRow:
    return SnapshotVersionRow(version=number, digest="d", created_at_unix_ns=0)


def test_a_unit_of_work_commits_at_its_end(database: Database) -> None:
    with database.session() as session:
        session.add(version(1))

    with database.reading() as session:
        assert count(session) == 1


def test_a_unit_of_work_that_raises_leaves_nothing(database: Database) -> None:
    def fail_half_way() -> None:
        with database.session() as session:
            session.add(version(1))
            session.flush()
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way()

    with database.reading() as session:
        assert count(session) == 0


def test_reading_refuses_to_write(database: Database) -> None:
    with (
        pytest.raises(DBAPIError, match=r"readonly database|read-only transaction"),
        database.reading() as session,
    ):
        session.execute(delete(SnapshotVersionRow))


def test_writing_works_again_on_the_connection_that_read(database: Database) -> None:
    for number in range(1, 4):
        with database.reading() as session:
            assert count(session) == number - 1
        with database.session() as session:
            session.add(version(number))


def test_a_reader_keeps_its_view_while_others_write(database: Database) -> None:
    with database.reading() as reader:
        assert count(reader) == 0
        with database.session() as writer:
            writer.add(version(1))
        assert count(reader) == 0

    with database.reading() as later:
        assert count(later) == 1


def test_what_was_loaded_stays_readable_after_the_commit(database: Database) -> None:
    with database.session() as session:
        row = version(7)
        session.add(row)

    assert row.version == 7


def test_foreign_keys_are_enforced(database: Database) -> None:
    row = ReplicaTransitionRow(replica_id="nobody", state="ready", reason="", at_unix_ns=0)

    with pytest.raises(IntegrityError), database.session() as session:
        session.add(row)


def test_threads_that_read_and_then_write_lose_no_update(database: Database) -> None:
    with database.session() as session:
        session.add(SnapshotVersionRow(version=1, digest="d", created_at_unix_ns=0))

    def increment(_: int) -> None:
        with database.session() as session:
            row = session.get_one(SnapshotVersionRow, 1)
            row.created_at_unix_ns += 1

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(increment, range(160)))

    with database.reading() as session:
        assert session.get_one(SnapshotVersionRow, 1).created_at_unix_ns == 160


def test_several_that_create_the_same_database_at_once_all_get_it(databases: Databases) -> None:
    url = databases.empty_url()
    together = threading.Barrier(8)

    def create(_: int) -> int:
        together.wait()
        database = create_or_open_database(url, DatabaseKind.CONFIG)
        try:
            with database.reading() as session:
                return count(session)
        finally:
            database.close()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(create, range(8))) == [0] * 8


def test_sqlite_lets_readers_go_on_while_one_writes(tmp_path: Path) -> None:
    database = create_or_open_database(sqlite_url(tmp_path / "c.db"), DatabaseKind.CONFIG)
    with database.reading() as session:
        assert session.execute(text("PRAGMA journal_mode")).scalar() == "wal"
    database.close()


def test_a_writer_that_waits_for_another_too_long_gives_up(postgresql: PostgresqlDatabases) -> None:
    database = postgresql.open(DatabaseKind.CONFIG)
    with database.reading() as session:
        assert session.execute(text("SHOW lock_timeout")).scalar() == "10s"
    database.close()
