"""What each fault moves in what an observer sees of a fleet, and what it leaves alone."""

import functools
from collections.abc import Callable

import pytest

from dataplane.simulation.clients import ClientBehaviour
from dataplane.simulation.cold_start import ColdStart, StartStage
from dataplane.simulation.faults.clients import RetryStorm, SlowClients
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.memory import CancelLeak, SmallerMemory, WorkspaceSpike
from dataplane.simulation.faults.metrics import (
    LyingMetrics,
    MissingSeries,
    RenamedSeries,
    StaleMetrics,
)
from dataplane.simulation.faults.placement import DraftDisagreement, StickyRouting
from dataplane.simulation.faults.process import HungReplica, SlowStart, StalledReplica
from dataplane.simulation.faults.traffic import (
    ClusteredArrivals,
    LongerOutputs,
    LongPrompts,
    PrefixChange,
    TenantFlood,
)
from dataplane.simulation.fleet_replica import ReplicaState
from dataplane.simulation.observer.dialect import Dialect
from dataplane.simulation.observer.dialects import DIALECTS
from dataplane.simulation.observer.lines import to_json
from dataplane.simulation.observer.pilothouse import PILOTHOUSE
from dataplane.simulation.speculation import SpeculativeCost, SpeculativeRound
from tests.dataplane.simulation.faulty_fleet import COST, IDS, FaultyFleet

RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
USAGE, PREEMPTIONS = "vllm:kv_cache_usage_perc", "vllm:num_preemptions_total"
TOKENS, PROMPT_TOKENS = "vllm:generation_tokens_total", "vllm:prompt_tokens_total"
HITS, QUERIES = "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"
ITL_SUM = "vllm:inter_token_latency_seconds_sum"
ITL_COUNT = "vllm:inter_token_latency_seconds_count"
STARTS = ColdStart(acquire=1, load=4, warm_up=2)
IMPATIENT = ClientBehaviour(first_token_within=30.0, answer_within=1.0)

ALL: tuple[Callable[..., Fault], ...] = (
    SmallerMemory,
    WorkspaceSpike,
    CancelLeak,
    StalledReplica,
    HungReplica,
    SlowStart,
    LongerOutputs,
    functools.partial(LongPrompts, added_tokens=400),
    PrefixChange,
    ClusteredArrivals,
    TenantFlood,
    RetryStorm,
    SlowClients,
    StickyRouting,
    StaleMetrics,
    MissingSeries,
    RenamedSeries,
    LyingMetrics,
)


@functools.cache
def well() -> FaultyFleet:
    return FaultyFleet().run()


@pytest.mark.parametrize("kind", ALL)
def test_intensity_0_is_the_very_same_run(kind: Callable[..., Fault]) -> None:
    none = FaultyFleet(kind(at=5, intensity=0), kind(at=5, duration=0), duration=10).run()
    expected = [to_json(seen) for seen in well().seen if seen.at <= 10]
    assert list(map(to_json, none.seen)) == expected


@pytest.mark.parametrize("kind", ALL)
def test_the_same_seed_gives_the_same_bytes_and_nobody_hears_of_the_fault(
    kind: Callable[..., Fault],
) -> None:
    runs = [FaultyFleet(kind(at=6, intensity=0.64321, seed=3), duration=10).run() for _ in "12"]
    seen = ["\n".join(map(to_json, run.seen)) for run in runs]
    assert seen[0] == seen[1]
    made = kind()
    for word in (type(made).__name__.lower(), "0.64321", "fault", "intensity"):
        assert word not in seen[0].lower()


def test_before_a_fault_begins_everything_is_as_without_it() -> None:
    for kind in ALL:
        faulty = FaultyFleet(kind(at=12, intensity=0.9), duration=12.0).run()
        before = [to_json(s) for s in faulty.seen if s.at < 12]
        assert before == [to_json(s) for s in well().seen if s.at < 12], kind


def test_a_stalled_replica_takes_longer_for_every_token_and_the_others_do_not() -> None:
    def itl(run: FaultyFleet, replica_id: str) -> float:
        gaps = run.growth(replica_id, 20, 60, ITL_COUNT)
        return run.growth(replica_id, 20, 60, ITL_SUM) / gaps

    runs = [FaultyFleet(StalledReplica(replica="b", at=20, intensity=i)).run() for i in (1, 4)]
    slow = [itl(run, "b") for run in (well(), *runs)]
    assert slow == sorted(slow)
    assert slow[2] > 3 * slow[0]
    assert itl(runs[1], "a") < 1.5 * itl(well(), "a")


def test_a_hung_replica_stands_still_in_every_series_and_goes_on_when_it_is_over() -> None:
    run = FaultyFleet(HungReplica(replica="b", at=20, duration=20)).run()
    assert {run.text("b", float(at)) for at in range(21, 40)} == {run.text("b", 21.0)}
    assert run.value("b", 30, RUNNING) > 0
    assert run.growth("b", 41, 60, TOKENS) > 0
    assert run.growth("a", 21, 40, TOKENS) > 0


def test_of_two_hangs_that_overlap_the_last_to_end_is_the_end() -> None:
    hangs = [
        HungReplica(replica="b", at=10, duration=5),
        HungReplica(replica="b", at=12, duration=15),
    ]
    for faults in (hangs, hangs[::-1]):
        run = FaultyFleet(*faults, duration=35).run()
        assert {run.text("b", float(at)) for at in range(11, 27)} == {run.text("b", 11.0)}
        assert run.growth("b", 27, 35, TOKENS) > 0


def test_a_process_that_begins_within_a_hang_hangs_until_it_is_over() -> None:
    hang = HungReplica(replica="b", at=2, duration=18)
    run = FaultyFleet(hang, cold_start=STARTS, duration=30).run()
    assert run.value("b", 19, TOKENS) == 0 < run.value("a", 19, TOKENS)
    assert run.growth("b", 20, 30, TOKENS) > 0


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)
def test_a_hung_engine_of_any_dialect_repeats_itself(dialect: Dialect) -> None:
    run = FaultyFleet(HungReplica(replica="b", at=12), dialect=dialect, duration=45).run()
    assert run.text("b", 30.0) == run.text("b", 45.0)
    assert run.text("a", 30.0) != run.text("a", 45.0)


def test_a_hung_vllm_says_every_minute_that_a_process_does_not_answer() -> None:
    run = FaultyFleet(HungReplica(replica="b", at=5), duration=200).run()
    assert run.log_of("b").count("No available shared memory broadcast block") == 3
    assert "No available shared memory" not in run.log_of("a")
    throughput = [line for line in run.log_of("b").split("\n") if "Avg generation" in line]
    assert "Avg generation throughput: 0.0 tokens/s, Running: 12 reqs" in throughput[-1] or (
        "Avg generation throughput: 0.0 tokens/s" in throughput[-1]
    )
    assert len(throughput) == 2


def test_less_memory_shows_in_the_config_of_the_process_and_in_its_usage() -> None:
    run = FaultyFleet(SmallerMemory(replica="b", intensity=0.85)).run()
    assert 'num_gpu_blocks="24"' in run.text("b", 10.0)
    assert 'num_gpu_blocks="160"' in run.text("a", 10.0)
    usage = [sum(r.value("b", float(at), USAGE) for at in range(60)) for r in (well(), run)]
    assert usage[1] > 2 * usage[0]
    assert run.growth("b", 0, 60, PREEMPTIONS) > well().growth("b", 0, 60, PREEMPTIONS)


def test_a_process_out_of_memory_dies_is_started_again_and_counts_from_zero() -> None:
    run = FaultyFleet(WorkspaceSpike(replica="b", at=20.5, intensity=1.0)).run()
    assert run.text("b", 20.0) != ""
    assert [run.text("b", float(at)) for at in range(21, 32)] == [""] * 11
    assert 0 < run.value("b", 34, TOKENS) < run.value("b", 20, TOKENS)
    log = run.log_of("b")
    assert log.index("torch.OutOfMemoryError") < log.index("status=1/FAILURE")
    assert log.index("status=1/FAILURE") < log.index("Loading weights took 4.00 seconds")
    assert "OutOfMemory" not in run.log_of("a")


def test_a_process_dies_once_of_two_spikes_at_one_moment() -> None:
    spikes = [WorkspaceSpike(replica="b", at=5.5, intensity=i) for i in (1.0, 2.0)]
    run = FaultyFleet(*spikes, duration=20).run()
    assert run.log_of("b").count("torch.OutOfMemoryError") == 1
    deaths = [c for c in run.fleet.changes if (c.replica_id, c.what) == ("b", "out of memory")]
    assert [c.at for c in deaths] == [5.5]
    assert run.fleet.replicas["b"].counts().num_starts == 2


def test_a_replica_that_dies_while_it_drains_stays_down() -> None:
    run = FaultyFleet(WorkspaceSpike(replica="b", at=5.5, intensity=1.0), duration=20)
    run.fleet.timeline.at(5.5 - 1e-6, run.fleet.replicas["b"].drain)
    run.run()
    assert "torch.OutOfMemoryError" in run.log_of("b")
    assert run.fleet.replicas["b"].state is ReplicaState.STOPPED
    assert run.fleet.replicas["b"].counts().num_starts == 1


def test_leaks_keep_blocks_when_nothing_runs_until_the_process_ends() -> None:
    run = FaultyFleet(CancelLeak(), dialect=PILOTHOUSE, client=IMPATIENT, duration=30).run(drain=30)
    num_leaked = run.total("pilothouse_replica_leaked_requests_total", 60)
    assert num_leaked > 10
    assert run.total("pilothouse_replica_active_sequences", 60) == 0
    assert run.total("pilothouse_replica_kv_blocks_referenced", 60) > num_leaked
    assert sum(g.num_leaked for g in run.fleet.gateways) == num_leaked
    without = FaultyFleet(dialect=PILOTHOUSE, client=IMPATIENT, duration=30).run(drain=30)
    assert without.total("pilothouse_replica_kv_blocks_referenced", 60) == 0


def test_a_slow_start_stretches_one_stage_of_the_start_alone() -> None:
    def ready_at(intensity: float) -> float:
        fault = SlowStart(replica="b", stage=StartStage.LOAD, intensity=intensity)
        run = FaultyFleet(fault, cold_start=STARTS, duration=40).run()
        assert f"Loading weights took {4 * (1 + intensity):.2f} seconds" in run.log_of("b")
        assert "Loading weights took 4.00 seconds" in run.log_of("a")
        return next(float(at) for at in range(40) if run.text("b", float(at)))

    assert [ready_at(i) for i in (0.0, 1.0, 5.0)] == [7, 11, 27]


def test_longer_outputs_fill_slots_and_leave_prompts_alone() -> None:
    runs = [FaultyFleet(LongerOutputs(at=20, intensity=i)).run() for i in (1.0, 3.0)]
    running = [sum(r.total(RUNNING, float(at)) for at in range(30, 60)) for r in (well(), *runs)]
    assert running == sorted(running)
    assert running[2] > 1.5 * running[0]


def test_long_prompts_raise_computed_prompt_tokens_and_every_gap_of_those_who_decode() -> None:
    runs = [
        FaultyFleet(LongPrompts(at=20, intensity=i, added_tokens=1200, share=0.3)).run()
        for i in (0.5, 1.0)
    ]
    prompts = [sum(r.growth(i, 20, 60, PROMPT_TOKENS) for i in IDS) for r in (well(), *runs)]
    gaps = [
        sum(r.growth(i, 20, 60, ITL_SUM) for i in IDS)
        / sum(r.growth(i, 20, 60, ITL_COUNT) for i in IDS)
        for r in (well(), *runs)
    ]
    assert prompts == sorted(prompts)
    assert gaps == sorted(gaps)
    assert gaps[2] > 1.1 * gaps[0]


def test_a_prefix_change_takes_the_hits_away_and_no_request() -> None:
    runs = [FaultyFleet(PrefixChange(at=20, intensity=i)).run() for i in (0.5, 1.0)]
    hits = [sum(r.growth(i, 25, 60, HITS) for i in IDS) for r in (well(), *runs)]
    assert hits == sorted(hits, reverse=True)
    assert hits[0] > 0 == hits[2]
    assert runs[1].total(QUERIES, 60) == pytest.approx(well().total(QUERIES, 60), rel=0.05)


def test_clustered_arrivals_make_waits_and_change_no_total() -> None:
    runs = [FaultyFleet(ClusteredArrivals(at=0, intensity=i, period=20)).run() for i in (0.5, 1.0)]
    peaks = [max(r.total(RUNNING, float(at)) for at in range(60)) for r in (well(), *runs)]
    assert peaks == sorted(peaks)
    assert peaks[2] == 36 > peaks[0]


def test_a_flooding_tenant_multiplies_what_it_asks_for_and_nobody_else_asks_for_more() -> None:
    runs = [FaultyFleet(TenantFlood(at=20, tenants=("acme",), intensity=i)).run() for i in (2, 8)]
    queries = [r.total(QUERIES, 60) for r in (well(), *runs)]
    assert queries == sorted(queries)
    assert queries[1] > 1.2 * queries[0]


def test_a_retry_storm_sends_the_same_calls_again() -> None:
    """Only where there is something to lose patience with: two of three replicas hang."""
    hangs = [HungReplica(replica=i, at=10, duration=30) for i in ("a", "b")]
    arrived = []
    for intensity in (0.0, 0.5, 1.0):
        storm = RetryStorm(at=0, intensity=intensity, patience=2.0)
        run = FaultyFleet(*hangs, storm).run()
        arrived.append(run.fleet.gateways[0].counts().arrived)
    assert arrived == sorted(arrived)
    assert arrived[2] > 1.1 * arrived[0]


def test_sticky_routing_fills_one_replica_while_others_idle() -> None:
    runs = [
        FaultyFleet(StickyRouting(replica="b", at=20, intensity=i)).run() for i in (0.3, 0.6, 1.0)
    ]
    shares = [
        r.growth("b", 25, 60, TOKENS) / sum(r.growth(i, 25, 60, TOKENS) for i in IDS)
        for r in (well(), *runs)
    ]
    assert shares == sorted(shares)
    assert shares[0] < 0.45
    assert shares[3] > 0.95
    assert runs[2].value("a", 50, RUNNING) == 0
    assert runs[2].value("b", 50, RUNNING) > 0


def test_drafts_that_stopped_agreeing_are_seen_in_the_counts_of_speculation_alone() -> None:
    def acceptance(run: FaultyFleet, replica_id: str) -> float:
        accepted = run.growth(replica_id, 25, 60, "vllm:spec_decode_num_accepted_tokens_total")
        drafted = run.growth(replica_id, 25, 60, "vllm:spec_decode_num_draft_tokens_total")
        return accepted / drafted

    speculative = SpeculativeCost(COST, SpeculativeRound(draft_steps=4, draft_cost=0.1), 0.8)
    runs = [
        FaultyFleet(DraftDisagreement(replica="b", at=20, intensity=i), cost=speculative).run()
        for i in (0.0, 0.5, 1.0)
    ]
    shares = [acceptance(run, "b") for run in runs]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == pytest.approx((0.8 + 0.8**2 + 0.8**3 + 0.8**4) / 4, rel=0.01)
    assert shares[2] == 0
    assert acceptance(runs[2], "a") == pytest.approx(shares[0], rel=0.01)
    assert "spec_decode" not in well().text("a", 30.0)


def test_slow_clients_are_not_seen_by_the_engine_but_by_the_gateway() -> None:
    run = FaultyFleet(SlowClients(at=20, tokens_per_second=0.5, buffered_tokens=4)).run()
    assert run.total(TOKENS, 60) == pytest.approx(well().total(TOKENS, 60), rel=0.1)
    assert len(run.fleet.gateways[0].live()) > 3 * len(well().fleet.gateways[0].live())


def test_several_faults_at_once_each_have_their_effect() -> None:
    run = FaultyFleet(
        StalledReplica(replica="a", at=20, intensity=2),
        SmallerMemory(replica="b", intensity=0.5),
        StaleMetrics(replica="c", at=30),
        PrefixChange(at=20),
    ).run()
    assert {run.text("c", float(at)) for at in range(30, 60)} == {run.text("c", 29.0)}
    assert 'num_gpu_blocks="80"' in run.text("b", 10.0)
    assert run.growth("a", 25, 60, HITS) == 0
    assert run.growth("a", 25, 60, TOKENS) < well().growth("a", 25, 60, TOKENS)
