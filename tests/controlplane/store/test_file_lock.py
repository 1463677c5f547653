"""One at a time has an SQLite database, and whoever comes second is told who."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database_lock import DatabaseInUseError
from controlplane.store.file_lock import FileLock, UnwritableLockError, lock_path

KIND = DatabaseKind.CONFIG


def lock_on(path: Path, kind: DatabaseKind = KIND, purpose: str = "pilothouse test") -> FileLock:
    return FileLock(path, sqlite_url(path), kind, purpose)


@contextmanager
def held(path: Path, kind: DatabaseKind = KIND, purpose: str = "pilothouse test") -> Iterator[None]:
    lock = lock_on(path, kind, purpose)
    lock.acquire(wait_seconds=0.0)
    try:
        yield
    finally:
        lock.release()


def test_the_second_is_told_who_has_it_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "config.db"
    with held(path, purpose="pilothouse first"), pytest.raises(DatabaseInUseError) as caught:
        lock_on(path).acquire(wait_seconds=0.05)

    said = str(caught.value)
    assert f"{path} is in use by pilothouse first pid {os.getpid()} on" in said
    assert f"on {socket.gethostname()}, since 20" in said
    assert "end that one, or name another database with --config-url" in said
    assert "machine is let go" not in said  # the kernel lets go at once


def test_it_is_free_again_afterwards_and_names_nobody(tmp_path: Path) -> None:
    path = tmp_path / "config.db"
    for _ in range(2):
        with held(path):
            assert str(os.getpid()) in lock_path(path, KIND).read_text()
        assert lock_path(path, KIND).read_text() == ""


def test_the_database_itself_is_not_touched(tmp_path: Path) -> None:
    with held(tmp_path / "config.db"):
        assert not (tmp_path / "config.db").exists()


def test_the_two_kinds_and_two_databases_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    with held(path), held(path, DatabaseKind.REQUESTS), held(tmp_path / "two.db"):
        pass


def test_another_name_of_the_same_file_is_the_same_database(tmp_path: Path) -> None:
    folder = tmp_path / "link"
    folder.symlink_to(tmp_path, target_is_directory=True)
    with held(tmp_path / "config.db"), pytest.raises(DatabaseInUseError):
        lock_on(folder / "config.db").acquire(wait_seconds=0.0)


def test_whoever_is_on_the_way_out_is_waited_for(tmp_path: Path) -> None:
    first, second = (lock_on(tmp_path / "config.db") for _ in range(2))
    first.acquire()
    timer = threading.Timer(0.2, first.release)
    timer.start()
    try:
        second.acquire(wait_seconds=30)
    finally:
        timer.join()
    assert (first.is_held(), second.is_held()) == (False, True)
    second.release()


def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableLockError, match="--config-url"):
        lock_on(tmp_path / "file" / "config.db").acquire()
