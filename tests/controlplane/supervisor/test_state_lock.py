"""One supervisor and one control plane at a time have a state directory."""

import os
from pathlib import Path

import pytest

from controlplane.supervisor.child import GivenUpError
from controlplane.supervisor.state_lock import state_lock


def test_a_second_holder_is_told_who_has_the_directory(tmp_path: Path) -> None:
    with (
        state_lock(tmp_path, "serve.lock", "pilothouse serve"),
        pytest.raises(GivenUpError, match=rf"another pilothouse serve \(pid {os.getpid()}\) has"),
        state_lock(tmp_path, "serve.lock", "pilothouse serve"),
    ):
        pytest.fail("two have it")


def test_locks_of_two_kinds_do_not_meet_and_are_free_again_afterwards(tmp_path: Path) -> None:
    for _ in range(2):
        with (
            state_lock(tmp_path / "new", "serve.lock", "pilothouse serve"),
            state_lock(tmp_path / "new", "controlplane.lock", "control plane"),
        ):
            pass


def test_a_directory_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(GivenUpError, match=r"file/state cannot be used \(Not a dir.*--state"),
        state_lock(tmp_path / "file" / "state", "serve.lock", "pilothouse serve"),
    ):
        pytest.fail("there is no such directory")
