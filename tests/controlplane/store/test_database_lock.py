"""One at a time has a PostgreSQL database, and whoever comes second is told who."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from controlplane.store.connection import DatabaseKind, create_bare_engine
from controlplane.store.database_lock import (
    DatabaseInUseError,
    DatabaseLock,
    LockHolder,
    find_holder,
    has_server,
)
from controlplane.store.schema import UnreachableError
from tests.databases import PostgresqlDatabases

KIND = DatabaseKind.CONFIG


@pytest.fixture
def url(postgresql: PostgresqlDatabases) -> str:
    return postgresql.url(KIND)


@contextmanager
def held(url: str, kind: DatabaseKind = KIND, purpose: str = "pilothouse test") -> Iterator[None]:
    lock = DatabaseLock(url, kind, purpose)
    lock.acquire(wait_seconds=0.05)
    try:
        yield
    finally:
        lock.release()


def holder_of(url: str) -> LockHolder | None:
    engine = create_bare_engine(url)
    with engine.connect() as connection:
        return find_holder(connection, KIND)


def end_connection(url: str, server_pid: int) -> None:
    """As a server that restarts ends it. Waits until it is gone."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (server_pid,))


def test_the_second_is_told_who_has_it_and_what_to_do(url: str) -> None:
    with held(url, purpose="pilothouse first"), pytest.raises(DatabaseInUseError) as caught:
        DatabaseLock(url, KIND, "pilothouse second").acquire(wait_seconds=0.05)

    said = str(caught.value)
    holder = caught.value.holder
    assert isinstance(holder, LockHolder)
    assert f"pilothouse first pid {os.getpid()} on {socket.gethostname()}"[:63] in said
    assert f"backend {holder.server_pid}, since 20" in said
    assert "on the server's machine" in said
    assert "end that one, or name another database with --config-url" in said


def test_it_is_free_again_afterwards_and_nobody_has_it(url: str) -> None:
    for _ in range(2):
        with held(url):
            assert holder_of(url) is not None
        assert holder_of(url) is None


def test_the_two_kinds_and_two_databases_do_not_meet(postgresql: PostgresqlDatabases) -> None:
    url = postgresql.url(KIND)
    with held(url), held(url, DatabaseKind.REQUESTS), held(postgresql.empty_url()):
        pass


def test_whoever_is_on_the_way_out_is_waited_for(url: str) -> None:
    first = DatabaseLock(url, KIND, "pilothouse first")
    first.acquire()
    timer = threading.Timer(0.2, first.release)
    timer.start()
    try:
        second = DatabaseLock(url, KIND, "pilothouse second")
        second.acquire(wait_seconds=30)
        second.release()
    finally:
        timer.join()


def test_a_connection_that_is_ended_takes_the_lock_with_it_and_is_noticed(url: str) -> None:
    lock = DatabaseLock(url, KIND, "pilothouse test")
    lock.acquire()
    assert lock.is_held()

    holder = holder_of(url)
    assert holder is not None
    end_connection(url, holder.server_pid)

    assert not lock.is_held()
    with held(url):
        pass
    lock.acquire()
    assert lock.is_held()
    lock.release()
    assert not lock.is_held()


def test_the_lock_holds_no_transaction_open(url: str) -> None:
    with held(url), closing(psycopg.connect(url)) as connection:
        holder = holder_of(url)
        assert holder is not None
        row = connection.execute(
            "SELECT state FROM pg_stat_activity WHERE pid = %s", (holder.server_pid,)
        ).fetchone()

    assert row == ("idle",)


@pytest.mark.parametrize("purpose", ["pilothouse " + "x" * 100, "pilothouse \u00fc"])
def test_a_name_that_no_server_takes_whole_is_cut(url: str, purpose: str) -> None:
    with held(url, purpose=purpose):
        holder = holder_of(url)

    assert holder is not None
    assert holder.application is not None
    assert holder.application.startswith("pilothouse ")
    assert len(holder.application.encode()) <= 63


def test_somebody_whom_we_may_not_see_is_told_all_the_same() -> None:
    holder = LockHolder(application=None, address="10.0.0.3", server_pid=7, since=None)

    assert str(holder) == "somebody whom this user may not see (connected from 10.0.0.3, backend 7)"


def test_a_server_that_does_not_answer_is_named() -> None:
    lock = DatabaseLock("postgresql://ann:geheim@127.0.0.1:1/x", KIND, "pilothouse test")
    with pytest.raises(UnreachableError, match="cannot be reached") as caught:
        lock.acquire()
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "is_server"), [("sqlite:////tmp/x.db", False), ("postgresql://db/x", True)]
)
def test_a_server_is_told_from_a_file(url: str, is_server: bool) -> None:
    assert has_server(url) is is_server
