import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike
from dataplane.simulation.observer.dialect import Dialect
from dataplane.simulation.observer.pilothouse import PILOTHOUSE
from dataplane.simulation.observer.vllm import VLLM
from tests.dataplane.simulation.observed_run import ObservedRun, small_config


def run_with(*faults: Fault, dialect: Dialect = VLLM, cancels: int = 0) -> ObservedRun:
    run = ObservedRun(dialect, faults=faults, until=40.0)
    run.submit_many(60)
    for sequence in run.sequences[:cancels]:
        run.cancel_at(run.arrived_at[sequence.request_id] + 1.0, sequence)
    return run.run()


def value(text: str, name: str) -> float:
    return next(
        s.value for f in text_string_to_metric_families(text) for s in f.samples if s.name == name
    )


def series(run: ObservedRun, name: str) -> list[float]:
    return [value(scraped.text, name) for scraped in run.scraped if scraped.text]


@pytest.mark.parametrize("kind", [SmallerMemory, WorkspaceSpike, CancelLeak])
def test_intensity_0_is_no_fault_to_the_byte(kind: type[Fault]) -> None:
    assert run_with(kind(intensity=0), cancels=9).seen == run_with(cancels=9).seen


def test_a_smaller_pool_from_the_start_says_so_and_preempts_more() -> None:
    preemptions = []
    for intensity in (0.0, 0.3, 0.6):
        run = run_with(SmallerMemory(intensity=intensity))
        text = run.scraped[-1].text
        blocks = re.search(r'num_gpu_blocks="(\d+)"', text)
        assert blocks is not None
        assert int(blocks[1]) == 40 - round(40 * intensity)
        preemptions.append(value(text, "vllm:num_preemptions_total"))
    assert preemptions == sorted(preemptions)
    assert preemptions[0] < preemptions[-1]


def test_blocks_that_go_missing_later_are_counted_as_used_and_come_back() -> None:
    run = run_with(SmallerMemory(at=5, duration=30, intensity=0.5))
    usage = series(run, "vllm:kv_cache_usage_perc")
    assert 'num_gpu_blocks="40"' in run.scraped[20].text
    well = series(run_with(), "vllm:kv_cache_usage_perc")
    assert usage[:5] == well[:5]
    assert min(usage[8:35]) >= 0.5
    assert usage[-1] == 0
    run.scheduler.check_integrity()


def test_what_runs_when_blocks_go_missing_ends_all_the_same() -> None:
    run = run_with(SmallerMemory(at=5, intensity=0.5))
    assert all(sequence.is_complete for sequence in run.sequences[:40])
    assert run.scheduler.stats.num_preemptions > run_with().scheduler.stats.num_preemptions
    run.scheduler.check_integrity()


def test_shortages_on_top_of_each_other_leave_a_block_as_they_do_to_a_process_that_starts() -> None:
    over = {"duration": 10.0, "intensity": 0.7}
    run = ObservedRun(
        VLLM,
        faults=[SmallerMemory(at=at, **over) for at in (2.0, 3.0, 4.0)],  # type: ignore[arg-type]
        until=40.0,
    )
    left = []
    for at in (2.5, 3.5, 4.5, 12.5, 13.5, 14.5):
        run.timeline.at(at, lambda: left.append(run.scheduler.pool.num_free))
    run.run()
    assert left == [12, 4, 1, 29, 37, 40]
    run.scheduler.check_integrity()


def test_a_spike_that_fits_takes_free_blocks_for_a_while() -> None:
    run = run_with(WorkspaceSpike(at=30, duration=5, intensity=0.4))
    usage = series(run, "vllm:kv_cache_usage_perc")
    assert usage[30] == usage[34] == 0.4
    assert usage[35] == 0
    assert run.exporter.is_up


def test_a_spike_beyond_what_is_free_kills_the_process_with_an_oom_in_its_log() -> None:
    run = run_with(WorkspaceSpike(at=5.5, duration=5, intensity=0.9))
    assert [scraped.error for scraped in run.scraped[5:8]] == [None] + ["connection refused"] * 2
    log = "\n".join(run.logged)
    assert "torch.OutOfMemoryError: CUDA out of memory" in log
    assert "Main process exited, code=exited, status=1/FAILURE" in log
    assert log.index("OutOfMemoryError") < log.index("Main process exited")


def test_a_stronger_spike_never_survives_where_a_weaker_one_kills() -> None:
    survived = [
        run_with(WorkspaceSpike(at=5.5, intensity=i)).exporter.is_up
        for i in (0.0, 0.01, 0.1, 0.5, 1.0)
    ]
    assert survived == sorted(survived, reverse=True)
    assert (survived[0], survived[-1]) == (True, False)


def test_leaked_blocks_stay_used_when_nothing_runs_and_are_told_as_a_leak() -> None:
    run = run_with(CancelLeak(), dialect=PILOTHOUSE, cancels=12)
    text = run.scraped[-1].text
    num_leaked = len(run.memory.leaked) if run.memory is not None else 0
    assert num_leaked > 0
    assert value(text, "pilothouse_replica_active_sequences") == 0
    assert value(text, "pilothouse_replica_waiting_requests") == 0
    assert value(text, "pilothouse_replica_unreleased_requests") == num_leaked
    assert value(text, "pilothouse_replica_leaked_requests_total") == num_leaked
    assert value(text, "pilothouse_replica_kv_blocks_referenced") > 0
    assert sum("is not released: a leak" in line for line in run.logged) == num_leaked
    run.scheduler.check_integrity()


def test_a_cancelled_request_that_waited_has_nothing_to_leak() -> None:
    run = ObservedRun(PILOTHOUSE, small_config(max_num_seqs=1), faults=[CancelLeak()], until=9.0)
    for number in range(3):
        run.cancel_at(1.0, run.submit_at(0.5 + number / 10, 20, 100))
    run.run()
    assert run.exporter.tally.num_cancelled == 3
    assert run.memory is not None
    assert run.memory.leaked == {0}


def test_the_more_leaks_the_more_stays_used_and_without_cancels_nothing() -> None:
    left = [
        series(run_with(CancelLeak(intensity=i, seed=2), cancels=30), "vllm:kv_cache_usage_perc")[
            -1
        ]
        for i in (0.0, 0.3, 0.6)
    ]
    assert left == sorted(left)
    assert left[0] == 0 < left[-1]
    assert run_with(CancelLeak()).seen == run_with().seen
