"""Whatever is named, what is read and held of it has an end."""

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.diagnosis.sources import bounds, files
from controlplane.diagnosis.sources.files import InputError, read_inputs
from controlplane.diagnosis.window import DoubtKind
from dataplane.engine_metrics.signal import Signal


def _statistics(minute: int, running: int) -> str:
    return (
        f"2026-11-30T08:{minute:02d}:00Z INFO metrics.py:449] Avg prompt throughput: 1.0 tokens/s, "
        f"Avg generation throughput: 9.0 tokens/s, Running: {running} reqs, Waiting: 0 reqs\n"
    )


_LOG = "".join(_statistics(minute, minute + 1) for minute in range(60)).encode()
_NEWEST = 1000
"""Bytes: six lines and a part of one."""


def _refusal(name: Path | str) -> InputError:
    with pytest.raises(InputError) as refused:
        read_inputs([str(name)])
    assert refused.value.place == str(name)
    assert refused.value.remedy
    return refused.value


def test_a_packed_page_that_says_one_thing_again_and_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_SCRAPES", 50)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"vllm:num_requests_running 1\n" * 51))
    assert "more than 50 times" in _refusal(bomb).what


def test_as_many_scrapes_as_may_be_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_SCRAPES", 50)
    saved = tmp_path / "pages.prom"
    saved.write_text("\n# TYPE a gauge\nvllm:num_requests_running 1\r\n" * 50)
    running = read_inputs([str(saved)]).find(Signal.RUNNING)
    assert running is not None
    assert len(running.readings) == 50


@pytest.mark.parametrize(
    ("bound", "complaint"),
    [("MOST_OF_PAGE", "holds a metrics page"), ("MOST_OF_PAGES", "of metrics pages")],
)
def test_a_page_is_bounded_by_file_as_by_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, complaint: str
) -> None:
    page = tmp_path / "page.prom"
    page.write_text("".join(f'vllm:num_requests_running{{engine="{n}"}} 1\n' for n in range(9)))
    read_inputs([str(page)])
    monkeypatch.setattr(bounds, bound, page.stat().st_size - 2)
    assert complaint in _refusal(page).what


def test_a_page_of_more_engines_than_are_judged_at_once_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.prom"
    page.write_text("".join(f'vllm:num_requests_running{{engine="{n}"}} 1\n' for n in range(9)))
    monkeypatch.setattr(bounds, "MOST_ENGINES", 9)
    read_inputs([str(page)])
    monkeypatch.setattr(bounds, "MOST_ENGINES", 8)
    assert "9 engines" in _refusal(page).what


def test_pages_of_many_files_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.prom", "b.prom"):
        (tmp_path / name).write_text("vllm:num_requests_running 1\n")
    monkeypatch.setattr(bounds, "MOST_OF_ALL_PAGES", 40)
    with pytest.raises(InputError) as refused:
        read_inputs([str(tmp_path / "a.prom"), str(tmp_path / "b.prom")])
    assert refused.value.place == str(tmp_path / "b.prom")


@pytest.mark.parametrize("is_packed", [False, True])
def test_of_a_long_log_the_newest_part_is_read_and_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    monkeypatch.setattr(files, "NEWEST_OF_LOG", _NEWEST)
    monkeypatch.setattr("controlplane.diagnosis.sources.chunks._CHUNK", 256)
    log = tmp_path / "engine.log"
    log.write_bytes(gzip.compress(_LOG) if is_packed else _LOG)
    window = read_inputs([str(log)])
    running = window.find(Signal.RUNNING)
    assert running is not None
    assert list(running.values) == [*range(61 - len(running.values), 61)]
    assert 5 <= len(running.values) <= 9
    told = [doubt.what for doubt in window.doubts_of(DoubtKind.UNREADABLE)]
    assert len(told) == 1
    assert "newest" in told[0]


def test_standard_input_is_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "NEWEST_OF_LOG", _NEWEST)
    monkeypatch.setattr("controlplane.diagnosis.sources.chunks._CHUNK", 256)
    running = read_inputs(["-"], io.BytesIO(_LOG)).find(Signal.RUNNING)
    assert running is not None
    assert running.last.value == 60
    assert len(running.values) < 10


def test_a_log_within_the_bound_is_read_whole(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_bytes(_LOG)
    window = read_inputs([str(log)])
    running = window.find(Signal.RUNNING)
    assert running is not None
    assert len(running.values) == 60
    assert not window.doubts_of(DoubtKind.UNREADABLE)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_device_is_refused(device: str) -> None:
    assert "is a device" in _refusal(device).what


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "named pipe" in _refusal(tmp_path / "pipe").what


def test_a_device_on_standard_input_is_refused() -> None:
    with Path("/dev/zero").open("rb") as zero, pytest.raises(InputError) as refused:
        read_inputs(["-"], zero)
    assert refused.value.place == "standard input"


def test_what_a_shell_hands_over_is_read() -> None:
    code = (
        "import sys; from controlplane.diagnosis.sources.files import read_inputs; "
        "print(len(read_inputs(sys.argv[1:]).lines))"
    )
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "$0" <(cat)', code],
        input=_LOG,
        capture_output=True,
        check=True,
    )
    assert int(done.stdout) == 60


@pytest.mark.parametrize(
    ("bound", "most"), [("MOST_FILES", 2), ("MOST_FOLDERS", 2), ("MOST_OF_FOLDER", 100)]
)
def test_a_folder_that_holds_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "engine.log").write_bytes(_LOG)
    monkeypatch.setattr(bounds, bound, most)
    assert "holds" in _refusal(tmp_path).what
