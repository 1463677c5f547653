"""An engine that is killed and started again within seconds is told of by its counters."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.diagnosis.always_on.restart_watch import RestartWatch
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.turnover import Counted
from controlplane.operator.restart import Restart
from dataplane.engine_metrics.gathering import SeriesKey
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.always_on.metrics_server import MetricsServer, serving
from tests.controlplane.diagnosis.always_on.watched_fleet import (
    WatchedFleet,
    replica,
    watched_fleet,
)

_S = 10**9
PROMPT: SeriesKey = (Signal.PROMPT_TOKENS, ())
OUTPUT: SeriesKey = (Signal.GENERATION_TOKENS, ())
STARTED: SeriesKey = (Signal.PROCESS_STARTED, ())


def last_of(*pages: Counted) -> Restart | None:
    watch = RestartWatch()
    for page in pages:
        watch.take(page)
    return watch.last


def page(at: float, prompt: float, output: float, started: float | None = None) -> Counted:
    starts = {} if started is None else {STARTED: started}
    return Counted(at=at, counters={PROMPT: prompt, OUTPUT: output}, starts=starts)


def held(prompt: float, output: float, start: float | None = None) -> list[Counted]:
    """The pages of a new process from 10 s on, as many as it takes to believe it."""
    return [page(10 + 5 * n, prompt + 9 * n, output + 4 * n, start) for n in range(6)]


def test_counters_that_begin_again_and_stay_so_are_a_restart() -> None:
    before, anew = page(5, 900, 400), held(20, 0)
    assert last_of(before, *anew[:-1]) is None, "a later page may be back where it was"
    expected = Restart(after_unix_ns=5 * _S, seen_at_unix_ns=10 * _S)
    assert last_of(before, *anew) == expected
    assert last_of(before, *anew, page(40, 990, 430)) == expected


def test_processes_that_answer_by_turns_are_none() -> None:
    one, other = page(5, 900, 400), page(10, 20, 0)
    turns = [replace(one if n % 2 else other, at=5.0 * n) for n in range(8)]
    assert last_of(*turns) is None
    assert last_of(*turns, *(replace(other, at=40 + 5 * n) for n in range(20))) is None


def test_one_counter_of_several_that_is_set_back_is_none() -> None:
    reset = (page(10 + 5 * n, 4 * n, 430 + n) for n in range(9))
    assert last_of(page(5, 900, 400), *reset) is None


def test_where_the_start_of_the_process_is_told_it_decides() -> None:
    assert last_of(page(5, 900, 400, 1.0), *held(0, 0, 1.2)) is None
    expected = Restart(after_unix_ns=5 * _S, seen_at_unix_ns=10 * _S)
    assert last_of(page(5, 0, 0, 1.0), *held(0, 0, 8.0)) == expected


def llamacpp_page(prompt: int, output: int) -> str:
    return (
        f"# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total {prompt}\n"
        f"# TYPE llamacpp:tokens_predicted_total counter\n"
        f"llamacpp:tokens_predicted_total {output}\n"
        "# TYPE llamacpp:requests_processing gauge\nllamacpp:requests_processing 2\n"
    )


@pytest.fixture
def engine() -> Iterator[MetricsServer]:
    with serving() as server:
        server.page = llamacpp_page(9000, 4000)
        yield server


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[WatchedFleet]:
    with watched_fleet(tmp_path, BUILT_IN_RULES, AlwaysOnSettings()) as fleet:
        yield fleet


def test_the_operator_is_told_of_it(fleet: WatchedFleet, engine: MetricsServer) -> None:
    fleet.runs(replica("seen-1", f"http://{engine.address}", "seen"))
    fleet.pass_for(10)
    assert fleet.observed.find_restart("seen-1") is None
    engine.page = llamacpp_page(100, 30)
    fleet.pass_for(30)
    seen = fleet.observed.find_restart("seen-1")
    assert seen is not None
    assert (seen.seen_at_unix_ns - seen.after_unix_ns) / _S == 5
