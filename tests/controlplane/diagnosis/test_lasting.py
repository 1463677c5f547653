"""From when to when a finding was to be seen in a long log, and how the engine stands since."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.cli.diagnosis_output import diagnosis_text
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.json_form import diagnosis_as_json
from controlplane.diagnosis.lasting import diagnose_course
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule_book import load_rules
from controlplane.diagnosis.sources.joining import join
from controlplane.diagnosis.sources.log import LogReader
from controlplane.diagnosis.stretch import stretch_of
from controlplane.diagnosis.window import Window

BEGUN = datetime(2026, 11, 29, tzinfo=UTC)
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 402.00 MiB. GPU 0 has a total "
    "capacity of 79.15 GiB of which 210.19 MiB is free. Of the allocated memory 70.12 GiB is "
    "allocated by PyTorch, and 7.80 GiB is reserved by PyTorch but unallocated."
)


def well(first: int, num: int) -> list[tuple[int, str]]:
    """So many lines of statistics, 10 s apart, from `first` seconds on."""
    return [
        (first + 10 * i, statistics(800 + 7 * (i % 5), 400 + 9 * (i % 7), 5 + i % 2, 0, 12 + i % 3))
        for i in range(num)
    ]


def statistics(prompt: float, generated: float, running: int, waiting: int, kv: float) -> str:
    return (
        f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, Avg generation throughput: "
        f"{generated:.1f} tokens/s, Running: {running} reqs, Waiting: {waiting} reqs, "
        f"GPU KV cache usage: {kv:.1f}%, Prefix cache hit rate: 35.0%"
    )


def window_of(said: Iterable[tuple[int, str]]) -> Window:
    reader = LogReader("engine.log", 2026)
    reader.read(_lines(said))
    return join([reader.finish(zero=0.0)])


def _lines(said: Iterable[tuple[int, str]]) -> Iterator[str]:
    for at, text in said:
        yield f"INFO {BEGUN + timedelta(seconds=at):%m-%d %H:%M:%S} [loggers.py:123] {text}"


@pytest.fixture(scope="module")
def failed_and_well_since() -> Window:
    restart = [(630, "vLLM API server version 0.10.1"), (660, "Application startup complete.")]
    return window_of([*well(0, 60), (600, OUT_OF_MEMORY), *restart, *well(700, 90)])


def test_a_failure_that_is_over_is_told_with_its_time_and_with_how_it_stands_since(
    failed_and_well_since: Window,
) -> None:
    found = diagnose_course(failed_and_well_since, load_rules())
    assert found.mechanism is Mechanism.OOM_FRAGMENTATION
    failed_at = (BEGUN + timedelta(seconds=600)).timestamp()
    assert diagnosis_as_json(found)["lasted"] == {
        "seen_from": failed_at,
        "seen_until": failed_at,
        "is_over": True,
        "now": "healthy",
        "now_confidence": "likely",
        "serving_since": (BEGUN + timedelta(seconds=700)).timestamp(),
    }
    text = diagnosis_text(found)
    assert "at 2026-11-29 00:10:00Z, 16 min before the end of what was seen" in text
    assert "it is over: what came after it, looked at alone, is healthy (likely)" in text


def _at(seconds: float) -> float:
    return BEGUN.timestamp() + seconds


PREFILL_OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.10 GiB of which 1.20 GiB is free."
)
RESTART = ("Initializing a V1 LLM engine (v0.10.1) with config: model='m'", "Application startup ")


def _restarted(at: int) -> list[tuple[int, str]]:
    return [(at, RESTART[0]), (at + 80, f"{RESTART[1]}complete.")]


def _rises(first: int, num: int) -> list[tuple[int, str]]:
    """Faster from the middle on: a change of level that has nothing to do with a failure before."""
    return [
        (first + 10 * i, statistics(100 + 60 * (i >= num // 2) + i % 3, 50, 3, 0, 12))
        for i in range(num)
    ]


@pytest.mark.parametrize("served", [30, 200], ids=["in a short log", "in a long one"])
def test_a_failure_that_its_last_figures_tell_apart_is_of_its_own_moment(served: int) -> None:
    said = [*well(0, 30), (310, PREFILL_OUT_OF_MEMORY), *_restarted(361), *_rises(480, served)]
    found = diagnose_course(window_of(said), load_rules())
    assert found.mechanism is Mechanism.OOM_PREFILL_TRANSIENT
    lasted = found.lasted
    assert lasted is not None
    assert (lasted.seen_from, lasted.seen_until) == (_at(310), _at(310))
    assert (lasted.serving_since, lasted.now) == (_at(480), Mechanism.HEALTHY)
    assert diagnosis_as_json(found)["since"] is None


def test_a_failure_of_just_now_is_told_with_the_start_after_it_and_not_called_over() -> None:
    said = [*well(0, 30), (310, PREFILL_OUT_OF_MEMORY), *_restarted(361), *_rises(480, 10)]
    found = diagnose_course(window_of(said), load_rules())
    assert found.lasted is not None
    assert (found.lasted.seen_from, found.lasted.seen_until) == (_at(310), None)
    assert found.lasted.serving_since == _at(480)
    assert diagnosis_as_json(found)["since"] is None
    text = diagnosis_text(found)
    assert "at 2026-11-29 00:05:10Z" in text
    assert "serving again since 2026-11-29 00:08:00Z" in text


def test_a_failure_that_comes_back_lasts_from_the_first_to_the_last() -> None:
    again = [*_restarted(561), *well(680, 5), (740, PREFILL_OUT_OF_MEMORY), *_restarted(790)]
    said = [*well(0, 50), (510, PREFILL_OUT_OF_MEMORY), *again, *well(900, 60)]
    lasted = diagnose_course(window_of(said), load_rules()).lasted
    assert lasted is not None
    assert (lasted.seen_from, lasted.seen_until) == (_at(510), _at(740))
    assert lasted.serving_since == _at(900)


def test_an_engine_that_was_started_anew_and_does_nothing_is_not_said_to_serve() -> None:
    idle = [(500 + 10 * i, statistics(0, 0, 0, 0, 0)) for i in range(40)]
    said = [*well(0, 30), (310, PREFILL_OUT_OF_MEMORY), *_restarted(361), *idle]
    lasted = diagnose_course(window_of(said), load_rules()).lasted
    assert lasted is not None
    assert (lasted.seen_until, lasted.serving_since) == (_at(310), None)


def test_a_failure_at_the_end_of_a_log_is_told_with_its_time_and_is_not_called_over() -> None:
    found = diagnose_course(window_of([*well(0, 60), (620, OUT_OF_MEMORY)]), load_rules())
    assert found.lasted is not None
    assert found.lasted.seen_from == (BEGUN + timedelta(seconds=620)).timestamp()
    assert found.lasted.seen_until is None
    assert "When\n" not in diagnosis_text(found)


def test_a_day_that_was_well_does_not_outweigh_an_engine_that_stands_still_at_its_end() -> None:
    stands = [(1000 + 10 * i, statistics(0, 0, 6, 2, 12.5)) for i in range(19)]
    found = diagnose_course(window_of([*well(0, 100), *stands]), load_rules())
    assert found.mechanism is not Mechanism.HEALTHY
    assert Mechanism.ENGINE_HUNG in {each.mechanism for each in (*found.findings, *found.possible)}


def test_a_log_that_is_well_to_its_end_stays_so() -> None:
    found = diagnose_course(window_of(well(0, 120)), load_rules())
    assert found.mechanism is Mechanism.HEALTHY
    assert found.lasted is None


def test_a_stretch_has_the_lines_readings_and_events_of_its_time_alone(
    failed_and_well_since: Window,
) -> None:
    before = stretch_of(failed_and_well_since, failed_and_well_since.start, BEGUN.timestamp() + 599)
    after = stretch_of(failed_and_well_since, BEGUN.timestamp() + 601, failed_and_well_since.end)
    assert (len(before.lines), len(after.lines)) == (60, 92)
    assert not any("OutOfMemory" in line for line in (*before.lines, *after.lines))
    assert {len(each.readings) for each in before.series} == {60}
    assert {len(each.readings) for each in after.series} == {90}


def _wave(first: int) -> list[tuple[int, str]]:
    """It comes at once, and drains."""
    waiting = [0, 0, 16, 16, 15, 9, 5, 1, 0, 0]
    return [
        (first + 10 * i, statistics(80, 40 + i, 4 if n else 1, n, 4.4))
        for i, n in enumerate(waiting)
    ]


def test_a_wave_long_past_is_no_answer_and_is_told_beside_what_came_after_it() -> None:
    since = [(1000 + 10 * i, statistics(80, 40 + i % 3, 3, 0, 3.3)) for i in range(6)]
    found = diagnose_course(window_of([*_wave(0), *since]), load_rules())
    assert found.mechanism is Mechanism.HEALTHY
    assert Mechanism.QUEUE_BURST_DRAINING in {each.mechanism for each in found.possible}


def test_a_log_that_breaks_off_asks_first_how_its_process_ended() -> None:
    since = [(1000 + 10 * i, statistics(80, 40 + i % 3, 3, 0, 3.3)) for i in range(3)]
    left = (1024, "Parent process exited, terminating worker queues")
    found = diagnose_course(window_of([*_wave(0), *since, left]), load_rules())
    assert found.mechanism is Mechanism.CANNOT_TELL
    assert left[1] in found.needs[0]


def _beside(
    first: Iterable[tuple[int, str]], second: Iterable[tuple[int, str]], names: tuple[str, str]
) -> Diagnosis:
    """Of the logs of two."""
    parts = []
    for name, said in zip(names, (first, second), strict=True):
        reader = LogReader(name, 2026)
        reader.read(_lines(said))
        parts.append(reader.finish(zero=0.0))
    return diagnose_course(join(parts), load_rules())


_FAILS = (310, PREFILL_OUT_OF_MEMORY)
_DIES = (311, "EngineCore encountered a fatal error.")
_SERVES_ON = [*well(0, 100)]
_STARTS_BESIDE = [*well(0, 35), *_restarted(361), *_rises(480, 60)]


@pytest.mark.parametrize("other", [_SERVES_ON, _STARTS_BESIDE], ids=["serves on", "starts anew"])
def test_a_replica_that_serves_does_not_end_the_failure_of_another(
    other: list[tuple[int, str]],
) -> None:
    found = _beside([*well(0, 30), _FAILS, _DIES], other, ("a.log", "b.log"))
    assert found.mechanism is Mechanism.OOM_PREFILL_TRANSIENT
    lasted = found.lasted
    assert lasted is not None
    assert lasted.seen_from == _at(310)
    assert (lasted.seen_until, lasted.serving_since, lasted.now) == (None, None, None)
    assert "it is over" not in diagnosis_text(found)


@pytest.mark.parametrize("other", [_SERVES_ON, _STARTS_BESIDE], ids=["serves on", "starts anew"])
def test_the_replica_that_failed_is_said_to_serve_by_its_own_start(
    other: list[tuple[int, str]],
) -> None:
    failed = [*well(0, 30), _FAILS, *_restarted(561), *_rises(680, 60)]
    lasted = _beside(failed, other, ("a.log", "b.log")).lasted
    assert lasted is not None
    assert (lasted.seen_until, lasted.serving_since) == (_at(310), _at(680))
    assert lasted.now is Mechanism.HEALTHY


def test_a_log_that_was_rotated_is_of_the_same_replica() -> None:
    failed, since = [*well(0, 30), _FAILS], [*_restarted(361), *_rises(480, 60)]
    lasted = _beside(failed, since, ("engine.log.1", "engine.log")).lasted
    assert lasted is not None
    assert (lasted.seen_until, lasted.serving_since) == (_at(310), _at(480))


def test_of_two_that_failed_together_nobody_is_said_to_serve() -> None:
    again = [_FAILS, *_restarted(361), *_rises(480, 60)]
    found = _beside([*well(0, 30), *again], [*well(0, 30), _FAILS], ("a.log", "b.log"))
    assert found.lasted is not None
    assert (found.lasted.seen_until, found.lasted.serving_since) == (None, None)
