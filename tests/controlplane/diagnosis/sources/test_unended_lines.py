"""Of a page that was cut within a number nothing says that digits are missing but its end."""

import gzip
import io
from pathlib import Path

import pytest

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.sources.files import InputError, read_inputs
from controlplane.diagnosis.sources.scrapes import Snapshot, series_of
from controlplane.diagnosis.window import DoubtKind, Window
from dataplane.engine_metrics.signal import Signal

_RUNNING = "vllm:num_requests_running 40\n"
_CUT = _RUNNING + "vllm:num_requests_waiting 8"


def _read(content: str | bytes) -> Window:
    data = content.encode() if isinstance(content, str) else content
    return read_inputs(["-"], io.BytesIO(data))


def _waiting(window: Window) -> Series | None:
    return window.find(Signal.WAITING)


def _told(window: Window) -> list[str]:
    return [doubt.what for doubt in window.doubts_of(DoubtKind.UNREADABLE)]


def test_a_number_that_no_line_break_ends_is_left_out_and_told() -> None:
    window = _read(_CUT)
    assert window.find(Signal.RUNNING) is not None
    assert _waiting(window) is None
    [told] = _told(window)
    assert "vllm:num_requests_waiting 8" in told


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n# EOF", "\n\n", "\n  "])
def test_a_page_that_ends_is_read_whole(end: str) -> None:
    window = _read(_CUT + end)
    waiting = _waiting(window)
    assert waiting is not None
    assert waiting.last.value == 8
    assert not _told(window)


@pytest.mark.parametrize("rest", ["vllm:num_requests_wai", "# TYPE vllm:num_requests_waiting gau"])
def test_what_is_cut_before_its_number_costs_only_itself(rest: str) -> None:
    window = _read(_RUNNING + "vllm:kv_cache_usage_perc 0.5\n" + rest)
    assert window.find(Signal.KV_USAGE) is not None
    [told] = _told(window)
    assert rest in told


def test_of_several_scrapes_in_a_file_the_last_alone_loses_its_last_line() -> None:
    waiting = _waiting(_read(f"{_CUT}000\n{_CUT}"))
    assert waiting is not None
    assert [reading.value for reading in waiting.readings] == [8000]


def test_each_of_two_files_that_are_cut_loses_its_last_line(tmp_path: Path) -> None:
    names = []
    for number in range(2):
        path = tmp_path / f"{number}.prom"
        path.write_text(_CUT)
        names.append(str(path))
    window = read_inputs(names)
    assert _waiting(window) is None
    assert {doubt.name for doubt in window.doubts_of(DoubtKind.UNREADABLE)} == set(names)


def test_a_packed_page_that_ends_before_its_end_is_as_little_believed() -> None:
    packed = gzip.compress(f"{_CUT}000\n".encode(), compresslevel=0)
    cut = packed[: packed.index(b"waiting 8") + len(b"waiting 8")]
    window = _read(cut)
    assert _waiting(window) is None
    assert any("packed by gzip" in told for told in _told(window))


def test_a_page_that_was_pasted_behind_log_lines_loses_its_last_line_too() -> None:
    line = (
        "2026-11-30T08:00:{:02d}Z INFO metrics.py:449] Avg prompt throughput: 1.0 tokens/s, "
        "Avg generation throughput: 9.0 tokens/s, Running: 9 reqs\n"
    )
    log = "".join(line.format(second) for second in range(10))
    window = _read(f"{log}# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 8")
    assert _waiting(window) is None
    assert any("vllm:num_requests_waiting 8" in told for told in _told(window))
    unended_log = _read(log.removesuffix("\n"))
    running = unended_log.find(Signal.RUNNING)
    assert running is not None
    assert len(running.readings) == 10
    assert not _told(unended_log)


def test_one_line_without_an_end_is_no_page() -> None:
    with pytest.raises(InputError, match="no end"):
        _read("vllm:num_requests_waiting 8")


@pytest.mark.parametrize("rest", ["vllm:num_pre", "# TYPE vllm:num_preemptions_total cou"])
def test_of_scrapes_too_what_is_cut_before_a_number_does_not_cost_the_line_before(
    rest: str,
) -> None:
    whole = "vllm:num_requests_running 3\nvllm:generation_tokens_total 12345\n"
    part = series_of([Snapshot(at=0, text=whole), Snapshot(at=1, text=whole + rest)])
    [tokens] = [each for each in part.series if each.signal is Signal.GENERATION_TOKENS]
    assert [reading.value for reading in tokens.readings] == [12345, 12345]
