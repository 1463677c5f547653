"""Every way that people's logs tell the time."""

from datetime import UTC, datetime

import pytest

from controlplane.diagnosis.sources.log.stamp import Clock, find_stamp
from controlplane.diagnosis.sources.log.timeline import Timeline

NOON = datetime(2026, 11, 30, 12, 0, 5, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "line",
    [
        "[2026-11-30 12:00:05 TP0] Decode batch",
        "2026-11-30T12:00:05Z  INFO text_generation_router: up",
        "2026-11-30T13:00:05.000000000+01:00 stdout F INFO up",
        "2026-11-30 12:00:05,000 - vllm - INFO - up",
        "[11/30/2026-12:00:05] [TRT-LLM] [I] up",
        '10.0.0.1 - - [30/Nov/2026:12:00:05 +0000] "GET / HTTP/1.1" 200',
        "[Mon Nov 30 12:00:05 2026] oom-kill:constraint=CONSTRAINT_MEMCG",
        "vllm-1  | 2026-11-30 12:00:05 INFO up",
    ],
)
def test_a_date_is_unix_time(line: str) -> None:
    stamp = find_stamp(line)
    assert stamp is not None
    assert (stamp.clock, stamp.seconds) == (Clock.DATED, NOON)


@pytest.mark.parametrize(
    ("line", "clock"),
    [
        ("(EngineCore_DP0 pid=7) INFO 11-30 12:00:05 [core.py:1] up", Clock.YEARLESS),
        ("I1130 12:00:05.000000 77 server.cc:12] up", Clock.YEARLESS),
        ("Nov 30 12:00:05 gpu1 python3[77]: up", Clock.YEARLESS),
        ("[12:00:05 TP0] Prefill batch", Clock.TIME_OF_DAY),
        ("[ 1234.567890] Out of memory: Killed process 1", Clock.UPTIME),
        ("0.12.345.678 I srv  update_slots: all slots are idle", Clock.PROCESS),
    ],
)
def test_other_clocks_are_told_apart(line: str, clock: Clock) -> None:
    stamp = find_stamp(line)
    assert stamp is not None
    assert stamp.clock is clock


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA out of memory",
        '  File "/srv/2026-11-30/run.py", line 3, in f',
        "INFO 13-45 12:00:05 [x.py:1] no month has that number",
        "INFO 02-30 12:00:05 [x.py:1] nor has February that day",
        "INFO 11-30 25:61:99 [x.py:1] nor the day that hour",
    ],
)
def test_what_is_no_time_is_none(line: str) -> None:
    assert find_stamp(line) is None


def seconds(*lines: str, year: int | None = None) -> list[float]:
    timeline = Timeline(year)
    stamps = [stamp for line in lines if (stamp := find_stamp(line))]
    found = [each for stamp in stamps if (each := timeline.seconds(stamp)) is not None]
    assert len(found) == len(lines)
    return [each - found[0] for each in found]


def test_the_year_ends_between_two_lines() -> None:
    assert seconds("INFO 12-31 23:59:50 [x] a", "INFO 01-01 00:00:10 [x] b") == [0, 20]


def test_midnight_falls_between_two_lines() -> None:
    assert seconds("[23:59:50] a", "[00:00:10] b") == [0, 20]


def test_a_line_that_comes_a_little_late_is_not_a_year_later() -> None:
    assert seconds("INFO 11-30 08:00:10 [x] a", "INFO 11-30 08:00:05 [x] b") == [0, -5]


def test_the_day_after_february_depends_on_the_year() -> None:
    lines = ("INFO 02-28 12:00:00 [x] a", "INFO 03-01 12:00:00 [x] b")
    assert seconds(*lines, year=2026) == [0, 86400]
    assert seconds(*lines, year=2028) == [0, 2 * 86400]


def test_lines_with_and_without_a_year_share_one_axis() -> None:
    lines = ("INFO 11-30 08:00:00 [x] a", "2026-11-30 08:00:07,000 b", "INFO 11-30 08:00:09 [x] c")
    assert seconds(*lines) == [0, 7, 9]


def test_a_date_in_a_message_is_not_the_time_of_the_line() -> None:
    timeline = Timeline()
    lines = ("INFO 11-30 08:00:00 [x] a", "2019-01-01 00:00:00 built", "INFO 11-30 08:00:05 [x] b")
    stamps = [stamp for line in lines if (stamp := find_stamp(line))]
    first, second, third = (timeline.seconds(stamp) for stamp in stamps)
    assert second is None
    assert first is not None
    assert third is not None
    assert third - first == 5
    assert not timeline.knows_year


def test_an_older_log_that_was_appended_is_followed_from_its_second_line_on() -> None:
    timeline = Timeline()
    lines = ("2026-11-30 08:00:00 a", "2026-11-02 08:00:00 b", "2026-11-02 08:00:01 c")
    stamps = [stamp for line in lines if (stamp := find_stamp(line))]
    found = [timeline.seconds(stamp) for stamp in stamps]
    assert found[1] is None
    assert found[2] is not None
