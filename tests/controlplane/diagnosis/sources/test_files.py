"""Whatever people saved of an engine is seen for what it is."""

import gzip
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.sources.chunks import Chunks
from controlplane.diagnosis.sources.files import InputError, read_inputs
from controlplane.diagnosis.views.phases import phases_of
from controlplane.diagnosis.window import DoubtKind, Window
from dataplane.engine_metrics.signal import Signal

EIGHT = 1796025600.0
"""2026-11-30T08:00:00Z"""


def page(running: int) -> str:
    return (
        "# TYPE vllm:num_requests_running gauge\n"
        f'vllm:num_requests_running{{engine="0",model_name="m"}} {running}\n'
    )


def log(*seconds: int, running: int = 9) -> str:
    return "".join(
        f"2026-11-30T08:00:{second:02d}Z INFO metrics.py:449] Avg prompt throughput: 1.0 tokens/s, "
        f"Avg generation throughput: 9.0 tokens/s, Running: {running} reqs, Waiting: 0 reqs\n"
        for second in seconds
    )


def saved(folder: Path, name: str, content: str | bytes, at: float | None = None) -> str:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if at is not None:
        os.utime(path, (at, at))
    return str(path)


def running(window: Window) -> Series:
    found = window.find(Signal.RUNNING)
    assert found is not None
    return found


def course(window: Window) -> list[tuple[float, float]]:
    return [(reading.at - EIGHT, reading.value) for reading in running(window).readings]


def test_two_metrics_files_are_two_snapshots_at_the_times_they_were_written(tmp_path: Path) -> None:
    before = saved(tmp_path, "before.prom", page(3), EIGHT)
    after = saved(tmp_path, "after.prom", page(4), EIGHT + 60)
    assert course(read_inputs([after, before])) == [(0, 3), (60, 4)]


def test_a_mark_before_each_of_several_scrapes_tells_its_time(tmp_path: Path) -> None:
    text = "".join(
        f"# scraped at 2026-11-30T08:00:{second:02d}Z\n{page(count)}"
        for second, count in ((0, 3), (30, 5))
    )
    window = read_inputs([saved(tmp_path, "all.prom", text, 5.0)])
    assert course(window) == [(0, 3), (30, 5)]
    assert not window.doubts_of(DoubtKind.TIME_GUESSED)


def test_a_time_in_the_name_goes_before_that_of_the_file(tmp_path: Path) -> None:
    names = [
        saved(tmp_path, "m-20261130T080000Z.prom", page(3), 5.0),
        saved(tmp_path, f"m-{EIGHT + 20:.0f}.prom", page(4), 5.0),
    ]
    assert course(read_inputs(names)) == [(0, 3), (20, 4)]


def test_scrapes_whose_times_nothing_tells_are_doubted(tmp_path: Path) -> None:
    window = read_inputs([saved(tmp_path, "all.prom", page(3) + page(4), EIGHT)])
    assert course(window) == [(-15, 3), (0, 4)]
    [doubt] = window.doubts_of(DoubtKind.TIME_GUESSED)
    assert "scraped at" in doubt.what


def test_metrics_and_a_log_are_on_one_clock(tmp_path: Path) -> None:
    metrics = saved(tmp_path, "m.prom", page(3), EIGHT + 40)
    window = read_inputs([metrics, saved(tmp_path, "e.log", log(0, 10))])
    assert (window.start, window.end) == (EIGHT, EIGHT + 40)


SGLANG = """\
[2026-03-02 08:00:00 TP0] Decode batch, #running-req: 2, #token: 512, token usage: 0.1, \
cuda graph: True, gen throughput (token/s): 80.0, #queue-req: 0,
[2026-03-02 08:00:10 TP0] Decode batch, #running-req: 2, #token: 590, token usage: 0.1, \
cuda graph: True, gen throughput (token/s): 79.0, #queue-req: 0,
"""


def test_files_of_two_engines_are_refused_with_who_is_of_which(tmp_path: Path) -> None:
    metrics = saved(tmp_path, "m.prom", page(3), EIGHT)
    other = saved(tmp_path, "sglang.log", SGLANG)
    with pytest.raises(InputError, match="diagnose those of each engine alone") as raised:
        read_inputs([metrics, other])
    assert f"{metrics} of vllm" in str(raised.value)
    assert f"{other} of sglang" in str(raised.value)
    with pytest.raises(InputError, match=r"e\.log of vllm"):
        read_inputs([other, saved(tmp_path, "e.log", log(0, 10))])


LLAMACPP = "llamacpp:requests_processing 0\nllamacpp:requests_deferred 0\n"


@pytest.mark.parametrize("text", [page(40) + LLAMACPP, LLAMACPP + page(40)])
def test_one_file_of_two_engines_is_refused_with_both(tmp_path: Path, text: str) -> None:
    mixed = saved(tmp_path, "two.prom", text, EIGHT)
    with pytest.raises(InputError, match="in a file of its own") as raised:
        read_inputs([mixed])
    assert raised.value.place == mixed
    assert {"llama.cpp", "vllm"} <= set(raised.value.what.split())
    alone = saved(tmp_path, "one.prom", page(40), EIGHT)
    with pytest.raises(InputError) as raised:
        read_inputs([alone, mixed])
    assert raised.value.place == mixed


def test_a_server_and_the_engine_inside_of_it_are_one(tmp_path: Path) -> None:
    both = "tgi_queue_size 3\nllamacpp:requests_processing 1\n"
    window = read_inputs([saved(tmp_path, "tgi.prom", both, EIGHT)])
    assert window.engine is not None


def test_a_log_that_may_be_of_another_engine_is_told_and_read(tmp_path: Path) -> None:
    metrics = saved(tmp_path, "m.prom", page(3), EIGHT)
    other = saved(tmp_path, "one.log", SGLANG.splitlines()[0] + "\n")
    [doubt] = [each for each in read_inputs([metrics, other]).doubts if each.name == other]
    assert "reads like sglang" in doubt.what


def test_a_gateway_stands_beside_any_engine(tmp_path: Path) -> None:
    gateway = saved(tmp_path, "g.txt", "pilothouse_gateway_queued_requests 4\n", EIGHT)
    window = read_inputs([gateway, saved(tmp_path, "m.prom", page(3), EIGHT)])
    assert window.engine is not None
    assert window.engine.name == "vllm"


def test_a_page_whose_file_was_copied_months_after_its_log_is_of_the_logs_end(
    tmp_path: Path,
) -> None:
    metrics = saved(tmp_path, "m.prom", page(3), EIGHT + 200 * 86400)
    window = read_inputs([metrics, saved(tmp_path, "e.log", log(0, 10))])
    assert (window.start, window.end) == (EIGHT, EIGHT + 10)
    [doubt] = window.doubts_of(DoubtKind.TIME_GUESSED)
    assert "200 days after the log ends" in doubt.what


def test_a_log_without_dates_ends_when_its_file_was_written(tmp_path: Path) -> None:
    text = "[08:00:00] Decode batch, #running-req: 1\n[08:00:10] Decode batch, #running-req: 2\n"
    window = read_inputs([saved(tmp_path, "e.log", text, EIGHT)])
    assert course(window) == [(-10, 1), (0, 2)]


def test_a_log_without_years_is_of_the_year_before_its_file_was_written(tmp_path: Path) -> None:
    text = "INFO 12-31 23:59:55 [x.py:1] Uvicorn running on http://0.0.0.0:8000\n"
    new_year = 1798761600.0
    window = read_inputs([saved(tmp_path, "e.log", text, new_year + 86400)])
    assert window.start == new_year - 5


def test_a_rotated_log_is_one_with_the_one_that_follows(tmp_path: Path) -> None:
    names = [
        saved(tmp_path, "e.log", log(20, 30)),
        saved(tmp_path, "e.log.1.gz", gzip.compress(log(0, 10).encode())),
    ]
    assert [at for at, _ in course(read_inputs(names))] == [0, 10, 20, 30]


def test_logs_of_the_same_time_are_of_several_replicas(tmp_path: Path) -> None:
    names = [
        saved(tmp_path, "a.log", log(0, 10, running=2)),
        saved(tmp_path, "b.log", log(0, 10, running=5)),
    ]
    window = read_inputs(names)
    found = window.all_series(Signal.RUNNING)
    assert {series.labels["replica"]: series.last.value for series in found} == {
        names[0]: 2,
        names[1]: 5,
    }


def test_what_lies_in_a_folder_by_chance_is_passed_over_and_told(tmp_path: Path) -> None:
    saved(tmp_path, "a.txt", page(3), EIGHT)
    strange = saved(tmp_path, "resolv.conf", "nameserver 10.0.0.1\n", EIGHT)
    window = read_inputs([str(tmp_path)])
    assert [doubt.name for doubt in window.doubts_of(DoubtKind.UNREADABLE)] == [strange]
    with pytest.raises(InputError, match=r"resolv\.conf"):
        read_inputs([str(tmp_path / "a.txt"), strange])


def test_pages_of_several_processes_are_no_scrapes_of_one(tmp_path: Path) -> None:
    replica = (
        'pilothouse_replica_info{{replica_id="{name}"}} 1\n'
        "pilothouse_replica_active_sequences {running}\n"
    )
    names = [
        saved(tmp_path, "r1.txt", replica.format(name="chat-1", running=3), EIGHT),
        saved(tmp_path, "r2.txt", replica.format(name="chat-2", running=8), EIGHT + 1),
        saved(tmp_path, "g.txt", "pilothouse_gateway_queued_requests 4\n", EIGHT + 2),
    ]
    window = read_inputs(names)
    found = {s.labels["replica"]: s.values for s in window.all_series(Signal.RUNNING)}
    assert found == {"chat-1": (3,), "chat-2": (8,)}
    assert not window.doubts_of(DoubtKind.MISSING)


def test_standard_input_is_read_once() -> None:
    with pytest.raises(InputError, match="give - once"):
        read_inputs(["-", "-"], io.BytesIO(page(1).encode()))


def test_folders_in_a_folder_are_replicas(tmp_path: Path) -> None:
    saved(tmp_path, "a/1.prom", page(1), EIGHT)
    saved(tmp_path, "b/1.prom", page(8), EIGHT)
    window = read_inputs([str(tmp_path)])
    found = window.all_series(Signal.RUNNING)
    assert {series.labels["replica"]: series.last.value for series in found} == {"a": 1, "b": 8}


def test_a_log_in_which_metrics_were_pasted_gives_both(tmp_path: Path) -> None:
    window = read_inputs([saved(tmp_path, "both.txt", log(0) + page(3) + log(5), EIGHT + 9)])
    assert window.exported_names
    assert len(window.lines) == 2


def test_standard_input_is_a_dash() -> None:
    window = read_inputs(["-"], io.BytesIO(log(0, 10).encode()))
    assert course(window) == [(0, 9), (10, 9)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_what_windows_saved_is_read(tmp_path: Path, encoding: str) -> None:
    text = log(0, 10).replace("\n", "\r\n").encode(encoding)
    assert course(read_inputs([saved(tmp_path, "e.log", text)])) == [(0, 9), (10, 9)]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"  \n\n", "is empty"),
        (b"\x00\x01\x02" * 50, "is no text"),
        (b"PK\x03\x04....", "zip archive"),
        (b"a.log".ljust(257, b"\x00") + b"ustar\x0000", "tar archive"),
        (b"\x1f\x8b\x08" + b"x" * 50, "cannot be unpacked"),
        (b"<!DOCTYPE html><html></html>", "HTML page"),
        (b'{"status":"success","data":{"resultType":"vector"}}', "--prometheus"),
        (b'{"at_s": 1.0, "kind": "log", "target": "a", "text": ""}\n', "name the folder"),
        (b"input: [", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_refused_with_place_and_remedy(
    tmp_path: Path, content: bytes, complaint: str
) -> None:
    name = saved(tmp_path, "saved", content)
    with pytest.raises(InputError) as refused:
        read_inputs([name])
    assert str(refused.value).startswith(name)
    assert complaint in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_inputs([str(tmp_path / "gone.log")])


def test_what_only_lies_in_a_folder_is_passed_over_and_told(tmp_path: Path) -> None:
    saved(tmp_path, "core", b"\x00" * 100)
    saved(tmp_path, "m.prom", page(3))
    window = read_inputs([str(tmp_path)])
    assert running(window).last.value == 3
    assert [doubt.name for doubt in window.doubts_of(DoubtKind.UNREADABLE)] == [
        str(tmp_path / "core")
    ]


def test_a_packed_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = gzip.compress(log(*range(60)).encode())
    window = read_inputs([saved(tmp_path, "e.log.gz", packed[:-8])])
    assert running(window).last.value == 9
    assert any("ends before" in doubt.what for doubt in window.doubts)


def test_the_nul_bytes_of_a_rotated_log_are_passed_over_and_told(tmp_path: Path) -> None:
    nuls = 70_000
    window = read_inputs([saved(tmp_path, "e.log", b"\0" * nuls + log(*range(60)).encode())])
    assert running(window).last.value == 9
    assert any(f"{nuls} NUL bytes" in doubt.what for doubt in window.doubts)


def test_what_is_nothing_but_nul_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing but NUL"):
        read_inputs([saved(tmp_path, "e.log", b"\0" * 70_000)])


def test_a_small_file_that_unpacks_to_a_large_one_is_read_within_bounds() -> None:
    packed = gzip.compress(b" " * (80 << 20), compresslevel=1)
    chunks = Chunks("bomb.gz", io.BytesIO(packed))
    assert 64 << 20 <= sum(map(len, chunks)) < 65 << 20
    [said] = chunks.shortcomings
    assert "unpacks to more than" in said


def test_how_far_a_file_is_read_is_told(tmp_path: Path) -> None:
    shares: list[float | None] = []
    file = saved(tmp_path, "e.log", log(*range(60)) * 40)
    read_inputs([file], told=lambda place, share: shares.append(share) if place == file else None)
    assert len(shares) > 1
    assert shares == sorted(shares, key=lambda share: share or 0.0)
    assert shares[-1] == 1.0


def test_what_explains_a_folder_of_cases_is_no_case(tmp_path: Path) -> None:
    saved(tmp_path, "README.md", "A case:\n```yaml\ninput:\n  - kind: log\n```\n")
    case = saved(tmp_path, "one.yaml", "input:\n  - kind: log\n")
    with pytest.raises(InputError, match="is a case") as raised:
        read_inputs([str(tmp_path)])
    assert raised.value.place == case


def test_text_that_no_engine_writes_is_doubted(tmp_path: Path) -> None:
    window = read_inputs([saved(tmp_path, "poem.txt", "roses\nviolets\n")])
    [doubt] = window.doubts
    assert "none of its 2 lines" in doubt.what


def test_pages_of_a_prefill_and_a_decode_server_are_two_replicas_with_their_roles(
    tmp_path: Path,
) -> None:
    for role, number in (("prefill", 2), ("decode", 9)):
        for minute in (0, 1):
            page = f'sglang:num_running_reqs{{engine_type="{role}",model_name="m"}} {number}\n'
            saved(tmp_path, f"{role}-{minute}.txt", page, EIGHT + 60 * minute)
    window = read_inputs([str(tmp_path)])
    found = {each.labels["role"]: each for each in window.all_series(Signal.RUNNING)}
    assert {role: list(each.values) for role, each in found.items()} == {
        "prefill": [2, 2],
        "decode": [9, 9],
    }
    phases = phases_of(window)
    assert phases is not None
    assert (len(phases.prefill), len(phases.decode)) == (1, 1)


def test_an_engine_that_does_all_of_the_work_needs_no_role(tmp_path: Path) -> None:
    page = 'sglang:num_running_reqs{engine_type="unified",model_name="m"} 3\n'
    window = read_inputs([saved(tmp_path, "page.txt", page)])
    assert dict(running(window).labels) == {}


@contextmanager
def as_somebody_else() -> Iterator[None]:
    """Without root's right to read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that everybody may enter, as pytest's own may not."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_what_may_not_be_read_is_named_and_the_rest_of_a_folder_is_read(shared: Path) -> None:
    saved(shared, "engine.log", log(1, 2))
    saved(shared, "locked.log", log(3, 4))
    (shared / "closed").mkdir()
    for name in ("closed", "locked.log"):
        (shared / name).chmod(0)
    assert read_inputs([str(shared / "engine.log")]).series
    with as_somebody_else():
        window = read_inputs([str(shared)])
        for name, why in (("closed", "cannot be entered"), ("locked.log", "cannot be read")):
            with pytest.raises(InputError, match=rf"{name} {why}: Permission denied; name files"):
                read_inputs([str(shared / name)])
        with pytest.raises(InputError, match=r"closed/a.log cannot be read: Permission denied"):
            read_inputs([str(shared / "closed" / "a.log")])
    (shared / "closed").chmod(0o700)
    assert window.series
    told = {Path(doubt.name).name: doubt.what for doubt in window.doubts}
    assert "cannot be entered: Permission denied" in told["closed"]
    assert "cannot be read: Permission denied" in told["locked.log"]
