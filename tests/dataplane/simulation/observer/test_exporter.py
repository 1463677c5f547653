import math
from itertools import pairwise

import pytest
from prometheus_client import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from dataplane.engine import EngineStats, ReplicaSpec
from dataplane.host.metrics import HostMetrics
from dataplane.simulation.observer.dialect import Dialect, UnknownDialectError
from dataplane.simulation.observer.dialects import DIALECTS, get_dialect
from dataplane.simulation.observer.pilothouse import PILOTHOUSE
from dataplane.simulation.observer.vllm import VLLM
from tests.dataplane.simulation.observed_run import ObservedRun, small_config

ALL = list(DIALECTS.values())


def parse(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text: str, name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in parse(text).values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def busy_run(dialect: Dialect, **changes: int) -> ObservedRun:
    run = ObservedRun(dialect, small_config(**changes))
    run.submit_many(60)
    for number in (5, 17, 33):
        sequence = run.sequences[number]
        run.cancel_at(run.arrived_at[sequence.request_id] + 0.3, sequence)
    return run.run()


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.name)
def test_every_scrape_of_every_dialect_parses_and_says_each_name_once(dialect: Dialect) -> None:
    run = busy_run(dialect)
    assert len(run.scraped) == 31
    for scraped in run.scraped:
        families = list(text_string_to_metric_families(scraped.text))
        assert len({f.name for f in families}) == len(families)
        assert all(f.type in ("gauge", "counter", "histogram") for f in families)
        assert all(f.samples and f.documentation for f in families)


@pytest.mark.parametrize("dialect", ALL, ids=lambda d: d.name)
def test_counters_never_fall_and_buckets_add_up_to_the_count(dialect: Dialect) -> None:
    before: dict[object, float] = {}
    for scraped in busy_run(dialect).scraped:
        for family in parse(scraped.text).values():
            for sample in family.samples:
                key = (sample.name, *sample.labels.items())
                if family.type != "gauge" and key in before:
                    assert sample.value >= before[key], key
                before[key] = sample.value
            if family.type == "histogram":
                by_name = {s.name: s.value for s in family.samples}
                last = [s.value for s in family.samples if s.labels.get("le") == "+Inf"]
                assert last == [by_name[f"{family.name}_count"]]


def test_the_histograms_hold_what_every_token_took() -> None:
    run = busy_run(VLLM)
    assert run.scheduler.stats.num_preemptions > 0
    text = run.scraped[-1].text
    selected = run.log.selected_at
    # A sequence that is cancelled under way selects the token of the step that runs.
    assert {r: len(times) for r, times in selected.items()} == {
        s.request_id: s.num_output_tokens for s in run.sequences if s.num_output_tokens
    }
    gaps = [b - a for times in selected.values() for a, b in pairwise(times)]
    ttfts = [times[0] - run.arrived_at[request_id] for request_id, times in selected.items()]
    num_tokens = sum(map(len, selected.values()))
    assert value(text, "vllm:generation_tokens_total") == num_tokens
    assert value(text, "vllm:inter_token_latency_seconds_count") == len(gaps)
    assert value(text, "vllm:inter_token_latency_seconds_sum") == pytest.approx(math.fsum(gaps))
    assert value(text, "vllm:time_to_first_token_seconds_count") == len(ttfts)
    assert value(text, "vllm:time_to_first_token_seconds_sum") == pytest.approx(math.fsum(ttfts))
    for bound in (0.025, 0.05, 0.1):
        counted = value(text, "vllm:inter_token_latency_seconds_bucket", le=str(bound))
        assert counted == sum(gap <= bound for gap in gaps)


def test_cancelled_requests_are_in_no_success_and_free_their_blocks() -> None:
    run = busy_run(VLLM)
    text = run.scraped[-1].text
    finished = sum(
        value(text, "vllm:request_success_total", finished_reason=reason)
        for reason in ("stop", "length", "abort")
    )
    assert finished == 57
    assert run.exporter.tally.num_cancelled == 3
    assert value(text, "vllm:num_requests_running") == 0
    assert value(text, "vllm:kv_cache_usage_perc") == 0


def test_our_own_dialect_is_what_a_replica_of_ours_exports() -> None:
    metrics = HostMetrics(
        ReplicaSpec(
            replica_id="r-1",
            deployment="simulated",
            engine="simulator",
            model_name="m",
            model_revision="m@1",
            engine_config_revision="m@1",
            artifact="m",
            settings={},
        )
    )
    metrics.set_stats(
        EngineStats(
            age_seconds=0,
            max_num_seqs=0,
            num_running=0,
            num_waiting=0,
            num_unreleased=0,
            num_blocks=0,
            num_free_blocks=0,
            num_referenced_blocks=0,
            num_cached_blocks=0,
            prompt_tokens_scheduled=0,
            decode_steps_scheduled=0,
        )
    )
    real = parse(generate_latest(metrics.registry).decode())
    ours = parse(busy_run(PILOTHOUSE).scraped[-1].text)
    served = {name: f for name, f in real.items() if not name.endswith("_created")}
    assert ours.keys() == served.keys()
    for name, family in served.items():
        assert (ours[name].type, ours[name].documentation) == (family.type, family.documentation)
        assert _shape(ours[name]) == _shape(family), name


def _shape(family: Metric) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
    return {(s.name, tuple(sorted(s.labels.items()))) for s in family.samples}


def test_our_own_gauges_say_what_the_scheduler_says() -> None:
    run = ObservedRun(PILOTHOUSE, until=2.0)
    run.submit_at(1.5, 100, 128)
    run.run()
    text = run.scraped[-1].text
    stats = run.scheduler.stats
    assert value(text, "pilothouse_replica_active_sequences") == 1
    assert value(text, "pilothouse_replica_kv_blocks_referenced") == stats.num_referenced_blocks
    assert value(text, "pilothouse_replica_kv_blocks_free") == stats.num_free_blocks
    assert value(text, "pilothouse_replica_input_tokens_total") == 100
    assert value(text, "pilothouse_replica_step_decode_steps") == 1


def test_a_process_that_ended_refuses_and_one_that_starts_again_counts_from_zero() -> None:
    run = ObservedRun(VLLM, until=12.0)
    run.submit_many(20, over=3.0)
    run.timeline.at(5.5, lambda: run.exporter.exited(-9))
    run.timeline.at(9.5, lambda: run.exporter.started(run.scheduler))
    run.run()
    by_time = {each.at: each for each in run.scraped}
    assert value(by_time[5.0].text, "vllm:generation_tokens_total") > 0
    assert (by_time[6.0].text, by_time[6.0].error) == ("", "connection refused")
    assert value(by_time[10.0].text, "vllm:generation_tokens_total") == 0
    assert any("code=killed, status=9/KILL" in line for line in run.logged)


def test_the_log_of_vllm_says_throughput_while_there_is_some() -> None:
    run = busy_run(VLLM)
    lines = [line for line in run.logged if "Avg generation throughput" in line]
    assert "Running: 5 reqs, Waiting: 25 reqs, GPU KV cache usage: 92.5%" in lines[0]
    assert "Avg generation throughput: 0.0 tokens/s" not in lines[0]


def test_the_same_run_is_seen_the_same_to_the_byte() -> None:
    assert busy_run(VLLM).seen == busy_run(VLLM).seen


def test_an_unknown_dialect_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownDialectError, match="did you mean vllm"):
        get_dialect("vlm")


def test_a_vllm_without_a_prefix_cache_queries_none() -> None:
    queries = "vllm:prefix_cache_queries_total"
    with_cache, without = busy_run(VLLM), busy_run(VLLM, is_prefix_caching=False)
    assert value(with_cache.scraped[-1].text, queries) > 0
    assert [value(scraped.text, queries) for scraped in without.scraped] == [0.0] * 31
    assert value(without.scraped[-1].text, "vllm:prompt_tokens_total") > 0


def test_vllm_counts_a_cut_prompt_in_the_step_that_ends_it_and_no_step_that_selects_nothing() -> (
    None
):
    run = ObservedRun(VLLM, small_config(max_num_batched_tokens=16))
    run.submit_at(0.0, num_prompt=40, num_output=3)
    text = run.run().scraped[-1].text
    tokens = "vllm:iteration_tokens_total"
    assert value(text, f"{tokens}_count") == 3  # of five steps
    assert value(text, f"{tokens}_sum") == 40 + 3
    assert value(text, f"{tokens}_bucket", le="1.0") == 2
