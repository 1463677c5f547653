"""What operators wrote down, in words of their own, becomes facts that rules find."""

import pytest

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.facts import fact_of, facts_of
from dataplane.engine_metrics.signal import Unit


def fact(key: str, value: object = "7") -> Fact:
    return fact_of(key, value, 0.0)


@pytest.mark.parametrize(
    ("key", "value", "expected", "unit", "raw"),
    [
        ("ttft_p95_ms", "320", 0.32, Unit.SECONDS, "320 ms"),
        ("ttftP95Ms", "320", 0.32, Unit.SECONDS, "320 ms"),
        ("queue wait (s)", "4.50", 4.5, Unit.SECONDS, "4.50 s"),
        ("oldest-wait-min", "95", 5700.0, Unit.SECONDS, "95 min"),
        ("free_gib", "2.0", 2 * 1024**3, Unit.BYTES, "2.0 GiB"),
        ("cpu_percent", "543", 5.43, Unit.RATIO, "543 %"),
        ("arrivals_per_min", "30", 0.5, Unit.PER_SECOND, "30/min"),
        ("gap_between_requests_s", "0.9", 0.9, Unit.SECONDS, "0.9 s"),
        ("browser_rendered_last_token_s", "70", 70.0, Unit.SECONDS, "70 s"),
        ("frames/s", "12", 12.0, Unit.PER_SECOND, "12/s"),
        ("throughput", "2.4k tok/s", 2400.0, Unit.TOKENS_PER_SECOND, "2.4k tok/s"),
        ("uptime", "1h 20m", 4800.0, Unit.SECONDS, "1h 20m"),
        ("arrivals", "12/s", 12.0, Unit.PER_SECOND, "12/s"),
        ("tps_client", "44", 44.0, Unit.TOKENS_PER_SECOND, "44 tokens/s"),
        ("output_tok_s", "81", 81.0, Unit.TOKENS_PER_SECOND, "81 tokens/s"),
        ("prefill_tokens_per_s", "81", 81.0, Unit.TOKENS_PER_SECOND, "81 tokens/s"),
        ("link_gbit_s", "400", 50e9, Unit.BYTES_PER_SECOND, "400 Gbit/s"),
        ("nic_rx_mbit_per_s", "8", 1e6, Unit.BYTES_PER_SECOND, "8 Mbit/s"),
        ("read_mb_s", "1", 1024.0**2, Unit.BYTES_PER_SECOND, "1 MB/s"),
        ("longest_prompt_tokens", "130,000", 130_000.0, Unit.TOKENS, "130,000"),
        ("gpu_busy", "93", 0.93, Unit.RATIO, "93"),
        ("usage", "12.5 %", 0.125, Unit.RATIO, "12.5 %"),
        ("startup", "40 min", 2400.0, Unit.SECONDS, "40 min"),
        ("speed", "18 tok/s", 18.0, Unit.TOKENS_PER_SECOND, "18 tok/s"),
        ("itl_ms_now", "68-93", 0.0805, Unit.SECONDS, "68-93 ms"),
        ("tokens_per_s_with_p2p", "66 to 92", 79.0, Unit.TOKENS_PER_SECOND, "66 to 92 tokens/s"),
        ("ttft", "about 30 s", 30.0, Unit.SECONDS, "about 30 s"),
    ],
)
def test_a_unit_is_taken_from_the_key_or_the_value(
    key: str, value: str, expected: float, unit: Unit, raw: str
) -> None:
    found = fact(key, value)
    assert found.value == pytest.approx(expected)
    assert (found.unit, found.raw) == (unit, raw)


def test_percentiles_loads_and_time_spans_are_taken_out_of_the_key() -> None:
    assert fact("itl_p999_ms").quantile == pytest.approx(0.999)
    assert fact("pull_ms_at_48").load == 48
    arrivals = fact("arrivals_last_60_s")
    assert (arrivals.over_seconds, arrivals.unit) == (60.0, None)
    assert arrivals.words == {"arrivals", "last"}


@pytest.mark.parametrize("text", ["2026-03", "03-02", "0-15", "1-4000", "2 x 72000 tokens"])
def test_what_only_looks_like_a_range_is_no_number(text: str) -> None:
    assert fact("seen", text).value is None


def test_text_stays_text_and_is_no_number() -> None:
    found = fact("probe_one_token", "no answer in 60 s")
    assert (found.value, found.raw) == (None, "no answer in 60 s")


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("inflight", "in flight"),
        ("requests_outstanding", "in flight"),
        ("open-requests", "in flight"),
        ("vram_used_mib", "gpu memory used"),
        ("device_memory_free_gib", "gpu memory free"),
        ("card_gib", "gpu memory"),
        ("cgroup_limit_gib", "host memory limit"),
        ("n_ctx", "context limit"),
        ("maxModelLen", "context limit"),
        ("max_running_requests", "seats"),
        ("parallel", "seats"),
        ("gpu_utilization", "gpu busy"),
        ("http_429", "rejected"),
        ("largest_prompt", "longest prompt"),
        ("client_aborts", "client cancelled"),
        ("avg_input_tokens", "mean prompt tokens"),
        ("qps", "requests"),
        ("utilisation", "utilization"),
    ],
)
def test_one_word_stands_for_several_that_mean_the_same(key: str, wanted: str) -> None:
    assert fact(key).words >= set(wanted.split())


@pytest.mark.parametrize(
    ("key", "unwanted"),
    [
        ("max_concurrent_requests", "flight"),
        ("tensor_parallel_size", "seats"),
        ("gpu_memory_utilization", "busy"),
        ("gpu_mem_util", "util"),
        ("kv_usage_min", "minutes"),
    ],
)
def test_look_alikes_are_not_taken_for_one_another(key: str, unwanted: str) -> None:
    assert unwanted not in fact(key).words


def test_a_value_for_each_of_several_becomes_one_fact_each() -> None:
    whole, web, batch = facts_of({"in_flight_by_key": {"web": "3", "batch": "58"}}, 5.0)
    assert (whole.raw, whole.value, whole.part) == ("web 3, batch 58", None, None)
    assert (web.part, web.value, web.at) == ("web", 3.0, 5.0)
    assert batch.key == "in_flight_by_key.batch"
    assert "flight" in batch.words


def test_of_names_and_texts_without_end_the_beginning_is_read() -> None:
    told = facts_of({"k" * 9000: "word " * 9000, "t": {"p" * 9000: 3}}, 1.0)
    assert [len(fact.key) for fact in told] == [200, 1, 202]
    assert len(told[0].raw) <= 4000
    assert told[2].value == 3


@pytest.mark.parametrize(
    ("key", "told", "kept"),
    [
        ("engine_args", "--api-key sk-x --max-num-seqs 8", "--api-key *** --max-num-seqs 8"),
        ("hf_token", "hf_abc123def", "***"),
        ("db_password", "hunter", "***"),
        ("target", "redis://u:pw@host", "redis://***@host"),
        ("first_token", "no answer in 60 s", "no answer in 60 s"),
        ("time_per_output_token", "120.25ms", "120.25ms"),
        ("environment", {"password": "hunter", "n": 1}, "password ***, n 1"),
    ],
)
def test_no_secret_is_kept_of_what_is_told(key: str, told: object, kept: str) -> None:
    assert facts_of({key: told}, 0.0)[0].raw == kept
