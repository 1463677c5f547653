"""The bundle's file: only its owner's, bounded, and with a manifest of what is missing."""

import json
import tarfile
from pathlib import Path

import pytest

from controlplane.support.archive import Archive
from controlplane.support.scrub import Scrubber


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_only_its_owner_may_read_it_and_what_is_inside(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    with Archive(path, Scrubber(), 1) as archive:
        archive.add_text("a.txt", "text")

    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as tar:
        assert {member.mode for member in tar.getmembers()} == {0o600}


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"
    path.write_text("mine")

    with pytest.raises(FileExistsError):
        Archive(path, Scrubber(), 1)

    assert path.read_text() == "mine"


def test_nothing_is_left_behind_when_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "b.tar.gz"

    def fail() -> None:
        with Archive(path, Scrubber(), 1) as archive:
            archive.add_text("a.txt", "text")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_too_long_keeps_its_beginning_or_its_end_and_says_so(
    tmp_path: Path,
) -> None:
    text = "a" + "x" * 100 + "z"
    with Archive(tmp_path / "b.tar.gz", Scrubber(), 1, max_file_bytes=100) as archive:
        archive.add_text("whole.txt", text)
        archive.add_text("tail.log", text, is_tail=True)

    found = members(tmp_path / "b.tar.gz")
    assert len(found["whole.txt"]) == len(found["tail.log"]) == 100
    assert found["whole.txt"].startswith(b"a")
    assert found["tail.log"].endswith(b"z")
    problems = [each["problem"] for each in json.loads(found["manifest.json"])["files"]]
    assert "only the beginning is here" in problems[0]
    assert "only the end is here" in problems[1]


def test_the_whole_is_bounded(tmp_path: Path) -> None:
    with Archive(tmp_path / "b.tar.gz", Scrubber(), 1, max_bundle_bytes=250) as archive:
        for number in range(5):
            archive.add_text(f"{number}.txt", "x" * 100)

    files = members(tmp_path / "b.tar.gz")
    del files["manifest.json"]
    assert sum(map(len, files.values())) == 250


def test_what_is_missing_is_noted_without_secrets(tmp_path: Path) -> None:
    with Archive(tmp_path / "b.tar.gz", Scrubber(), 1) as archive:
        archive.note_missing("x.json", "postgresql://u:pass-word@h does not answer")

    [entry] = json.loads(members(tmp_path / "b.tar.gz")["manifest.json"])["files"]
    assert entry == {
        "file": "x.json",
        "num_bytes": 0,
        "problem": "postgresql://***@h does not answer",
    }
