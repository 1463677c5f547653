"""A control plane has its databases alone, keeps them over a restart of their server, and ends
when somebody else has come between."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.process_history import ProcessHistory
from controlplane.store.connection import DatabaseKind, create_bare_engine, sqlite_url
from controlplane.store.database_lock import DatabaseInUseError, LockHolder, find_holder
from controlplane.store.upgrade import upgrade_database
from controlplane.supervisor.child import REFUSED_EXIT_CODE, GivenUpError
from controlplane.supervisor.database_absences import DatabaseAbsences
from controlplane.supervisor.database_locks import LockWatch, held_locks
from controlplane.supervisor.first_start import check_free
from controlplane.supervisor.http import answers
from controlplane.supervisor.settings import ServeSettings
from tests.databases import PostgresqlDatabases, SqliteDatabases
from tests.ports import free_port

_PATIENCE_SECONDS = 60


def holder_of(url: str, kind: DatabaseKind = DatabaseKind.CONFIG) -> LockHolder | None:
    with create_bare_engine(url).connect() as connection:
        return find_holder(connection, kind)


def wait_for_holder(url: str, other_than: int | None = None) -> LockHolder:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        holder = holder_of(url, DatabaseKind.REQUESTS)  # the last to be taken
        if holder is not None and holder.server_pid != other_than:
            return holder
        time.sleep(0.05)
    raise AssertionError("nobody takes the lock")


def end_connection(url: str, server_pid: int) -> None:
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", (server_pid,))


def start(url: str, state_dir: Path, port: int = 0) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "controlplane.cli", "controlplane", "--port", str(port)),
            *("--state-dir", state_dir, "--config-url", url, "--requests-url", url),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def running(url: str, state_dir: Path, port: int = 0) -> "Iterator[subprocess.Popen[str]]":
    process = start(url, state_dir, port)
    try:
        wait_for_holder(url)
        yield process
    finally:
        process.kill()
        process.communicate()


def database_command(name: str, url: str, state_dir: Path, *more: str) -> Result:
    options = ["--state-dir", str(state_dir), "--config-url", url, "--requests-url", url]
    return CliRunner().invoke(main, ["db", name, *options, *more])


def test_while_a_control_plane_runs_no_other_process_gets_its_database(
    postgresql: PostgresqlDatabases, tmp_path: Path
) -> None:
    url = postgresql.url(DatabaseKind.CONFIG)
    file = tmp_path / "b.tar.gz"
    assert database_command("backup", url, tmp_path, str(file)).exit_code == 0

    with running(url, tmp_path / "one") as first:
        second = start(url, tmp_path / "two")
        said, _ = second.communicate(timeout=_PATIENCE_SECONDS)
        refused = [
            database_command("upgrade", url, tmp_path / "three"),
            database_command("upgrade", url, tmp_path / "three", "--dry-run"),
            database_command("restore", url, tmp_path / "three", str(file)),
        ]
        by_serve = serve_settings(tmp_path / "four", url)
        with pytest.raises(GivenUpError, match=f"pid {first.pid} on") as caught:
            check_free(by_serve)
        is_first_running = first.poll() is None

    assert is_first_running
    assert second.returncode == REFUSED_EXIT_CODE
    assert caught.value.exit_code == REFUSED_EXIT_CODE
    for text in (said, *(each.output for each in refused)):
        assert f"is in use by pilothouse controlplane pid {first.pid} on " in text
        assert "end that one, or name another database with --config-url" in text
    assert [each.exit_code for each in refused] == [1, 1, 1]
    # It was killed, and left nothing to clear away.
    assert database_command("upgrade", url, tmp_path / "three").exit_code == 0
    assert not (tmp_path / "three").exists()
    check_free(by_serve)


def serve_settings(state_dir: Path, url: str | None) -> ServeSettings:
    return ServeSettings(
        state_dir=state_dir,
        port=8700,
        gateway_port=8701,
        config_dir=None,
        drain_seconds=1,
        config_url=url,
        requests_url=url,
    )


def test_a_control_plane_whose_database_was_taken_ends_and_says_by_whom(
    postgresql: PostgresqlDatabases, tmp_path: Path
) -> None:
    url = postgresql.url(DatabaseKind.CONFIG)
    with running(url, tmp_path / "one") as first:
        taken = threading.Event()

        def take() -> None:
            with held_locks({DatabaseKind.CONFIG: url}, "pilothouse thief", _PATIENCE_SECONDS):
                taken.set()
                first.wait(_PATIENCE_SECONDS)

        thief = threading.Thread(target=take)
        thief.start()
        wait_for_waiter(url)
        holder = holder_of(url)
        assert holder is not None
        end_connection(url, holder.server_pid)
        said, _ = first.communicate(timeout=_PATIENCE_SECONDS)
        thief.join()

    assert taken.is_set()
    assert first.returncode == REFUSED_EXIT_CODE
    assert "is in use by pilothouse thief pid" in said.strip().splitlines()[-1]


def wait_for_waiter(url: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        while connection.execute(query).fetchone() == (0,):
            assert time.monotonic() < deadline, "nobody waits for the lock"
            time.sleep(0.02)


def test_a_lock_that_a_restart_of_the_server_ended_is_taken_again(
    postgresql: PostgresqlDatabases,
) -> None:
    url = postgresql.url(DatabaseKind.CONFIG)
    calls: list[str] = []
    with (
        held_locks(dict.fromkeys(DatabaseKind, url), "pilothouse test") as locks,
        LockWatch(locks, lambda: calls.append("taken"), look_seconds=0.02).watching(),
    ):
        before = wait_for_holder(url)
        end_connection(url, before.server_pid)
        after = wait_for_holder(url, other_than=before.server_pid)

    assert after.application == before.application
    assert calls == []
    assert holder_of(url) is None


def test_an_outage_of_the_server_is_an_event_at_its_begin_and_at_its_end(
    postgresql: PostgresqlDatabases, tmp_path: Path
) -> None:
    url = postgresql.url(DatabaseKind.CONFIG)
    history = ProcessHistory(tmp_path)
    absences = DatabaseAbsences(history)
    with (
        held_locks(dict.fromkeys(DatabaseKind, url), "pilothouse test") as locks,
        LockWatch(locks, lambda: None, look_seconds=0.02, on_change=absences.note).watching(),
    ):
        before = wait_for_holder(url)
        end_connection(url, before.server_pid)
        wait_for_holder(url, other_than=before.server_pid)

    told = history.read(10)[::-1]
    assert [(each.role, each.name, each.what) for each in told] == [
        ("database", "requests", "lost"),
        ("database", "requests", "regained"),
    ]
    assert told[0].at_unix_ns <= told[1].at_unix_ns


def test_a_history_that_takes_no_more_does_not_end_the_watch(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    DatabaseAbsences(ProcessHistory(tmp_path / "file")).note(DatabaseKind.CONFIG, False)


def test_whoever_lost_it_to_another_is_told_once_and_at_the_end(
    postgresql: PostgresqlDatabases,
) -> None:
    url = postgresql.url(DatabaseKind.CONFIG)
    urls = {DatabaseKind.CONFIG: url}
    told = threading.Event()
    with pytest.raises(DatabaseInUseError, match="in use by pilothouse second"):
        lose_to_another(urls, url, told)


def lose_to_another(urls: dict[DatabaseKind, str], url: str, told: threading.Event) -> None:
    with held_locks(urls, "pilothouse first") as locks:
        watch = LockWatch(locks, told.set, look_seconds=0.02, wait_seconds=0.05)
        holder = holder_of(url)
        assert holder is not None
        end_connection(url, holder.server_pid)
        with held_locks(urls, "pilothouse second"), watch.watching():
            assert told.wait(_PATIENCE_SECONDS)


def test_a_second_control_plane_on_the_same_files_is_told_who_has_them(tmp_path: Path) -> None:
    """From another state directory, under another name of the same files."""
    urls = SqliteDatabases(tmp_path).urls()
    (tmp_path / "linked.db").symlink_to(tmp_path / "config.db")
    linked = sqlite_url(tmp_path / "linked.db")
    file = tmp_path / "b.tar.gz"
    for kind, url in urls.items():
        upgrade_database(url, kind)
    with (
        held_locks(urls, "pilothouse controlplane") as locks,
        LockWatch(locks, lambda: None).watching(),
    ):
        second = start(linked, tmp_path / "two")
        said, _ = second.communicate(timeout=_PATIENCE_SECONDS)
        upgraded = database_command("upgrade", linked, tmp_path / "three")
        with pytest.raises(GivenUpError) as caught:
            check_free(serve_settings(tmp_path / "four", linked))
        options = ["--state-dir", str(tmp_path)]
        checked = CliRunner().invoke(main, ["db", "check", "--deep", *options])
        saved = CliRunner().invoke(main, ["db", "backup", str(file), *options])

    who = f"is in use by pilothouse controlplane pid {os.getpid()} on {socket.gethostname()}"
    for text in (said, upgraded.output, str(caught.value)):
        assert who in text
        assert "end that one, or name another database with --config-url" in text
    assert (second.returncode, upgraded.exit_code) == (REFUSED_EXIT_CODE, 1)
    assert (checked.exit_code, saved.exit_code) == (0, 0)
    check_free(serve_settings(tmp_path / "four", linked))


def test_a_control_plane_ends_in_order_and_gives_the_database_back(
    postgresql: PostgresqlDatabases, tmp_path: Path
) -> None:
    url, port = postgresql.url(DatabaseKind.CONFIG), free_port()
    with running(url, tmp_path, port) as process:
        wait_for_answer(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(_PATIENCE_SECONDS) == 0

    assert holder_of(url) is None


def wait_for_answer(port: int) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not answers("127.0.0.1", port, "/healthz"):
        assert time.monotonic() < deadline, "it does not answer"
        time.sleep(0.05)
