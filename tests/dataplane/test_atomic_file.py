"""A file is replaced whole, and what is no file of its own stays what it is."""

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from dataplane.atomic_file import replace_file


def test_what_was_there_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "status"
    replace_file(path, b"first")
    replace_file(path, b"second", is_private=True)
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["status"]


def test_a_pipe_is_written_into_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read: list[bytes] = []
    reader = Thread(target=lambda: read.append(path.read_bytes()))
    reader.start()
    replace_file(path, b"the answer")
    reader.join(30)
    assert read == [b"the answer"]
    assert path.is_fifo()


def test_a_link_stays_and_leads_to_the_new_content(tmp_path: Path) -> None:
    target, link = tmp_path / "shared" / "rules.yml", tmp_path / "rules.yml"
    target.parent.mkdir()
    target.write_bytes(b"old")
    link.symlink_to(target)
    replace_file(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_failed_replacement_leaves_what_was_there_alone(tmp_path: Path) -> None:
    folder = tmp_path / "status"
    folder.mkdir()
    with pytest.raises(IsADirectoryError):
        replace_file(folder, b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["status"]
