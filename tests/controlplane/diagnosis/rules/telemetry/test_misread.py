"""Each trap is stepped into, and the same figures without it are no trap."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import (
    HistogramReading,
    HistogramSeries,
    Origin,
    Series,
    SourceKind,
)
from controlplane.diagnosis.rules.telemetry.misread import MISREAD
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window
from tests.controlplane.diagnosis.rules.evidence import reckoned

USAGE = "vllm:kv_cache_usage_perc"
LOGGED = SourceKind.LOG
BUSY = (
    series(Signal.KV_USAGE, 0.41, name=USAGE, replica="a"),
    series(Signal.KV_USAGE, 0.44, name=USAGE, replica="b"),
)
PREEMPTED = series(Signal.PREEMPTIONS, 4211, 4211, every=300, name="vllm:num_preemptions_total")
PREFILLS = (
    series(Signal.GENERATION_RATE, 0, 0, every=60, name="sglang:gen_throughput"),
    series(Signal.COMPUTED_PROMPT_TOKENS, 0, 2160000, every=60),
)
EMPTIED = (
    series(Signal.KV_USAGE, 0.148, 0.031, 0.0, 0.026, kind=LOGGED, name="GPU KV cache usage"),
    series(Signal.RUNNING, 3, 1, 0, 1, kind=LOGGED, name="Running"),
)
HITS_KEPT = series(Signal.HIT_RATE, 0.714, 0.739, every=30, kind=LOGGED, name="hit rate")
HITS_LOST = series(Signal.HIT_RATE, 0.714, 0.02, every=30, kind=LOGGED, name="hit rate")

TRAPS: dict[str, tuple[Series | tuple[Fact, ...], ...]] = {
    "sum of shares": (*BUSY, told(alert=f"sum({USAGE}) > 0.8", alert_value=0.85)),
    "never reached": (
        series(Signal.KV_USAGE, 0.98, name=USAGE),
        told(alert_rule=f"{USAGE} > 90", alert="never fired"),
    ),
    "total since start": (PREEMPTED, told(alert="vllm:num_preemptions_total > 1000")),
    "counted twice": (
        series(Signal.RUNNING, 12, name="sglang:num_running_reqs"),
        told(panel="sum(sglang:num_running_reqs)", dashboard_running=24),
    ),
    "mean since start": (
        told(
            panel="vllm:time_to_first_token_seconds_sum / vllm:time_to_first_token_seconds_count",
            panel_ttft_s=0.41,
            last_5_min_mean_ttft_s=3.9,
        ),
    ),
    "mean of percentiles": (told(panel="avg(histogram_quantile(0.99, ttft))"),),
    "prefills and decodes nothing": (*PREFILLS, told(panel="gen_throughput of prefill servers")),
    "fell with its requests": (*EMPTIED, HITS_KEPT),
    "cached is not held": (
        series(Signal.RUNNING, 0),
        told(kv_blocks_used=260, kv_blocks_evictable=260),
    ),
    "hits of the preempted": (
        series(Signal.HIT_RATE, 0.3, kind=LOGGED, name="hit rate"),
        series(Signal.PREEMPTIONS, 412, name="vllm:num_preemptions_total"),
        told(prompts="1000, random, no two alike"),
    ),
    "of one batch": (
        series(Signal.HIT_RATE, 0, 0, every=60, name="sglang:cache_hit_rate"),
        told(cached_tokens_in_answers_share=0.78),
    ),
    "busy is not full": (
        series(Signal.DEVICE_USAGE, 0.99, name="DCGM_FI_DEV_GPU_UTIL"),
        told(claim="the GPU is full, utilization 99 %", sm_active=0.11),
    ),
    "counted by a factor": (
        series(Signal.FINISHED, 400, 520, every=60),
        told(60, requests_sent_last_60_s=40, request_param_n=3),
    ),
    "never caught running": (
        series(Signal.RUNNING, 0, 0, every=30),
        series(Signal.FINISHED, 90411, 90542, every=30),
        told(ticket="running is broken, always 0", scrape_interval_s=30),
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_trap_is_named(trap: str) -> None:
    verdict = MISREAD.judge(window(*TRAPS[trap]))
    assert verdict is not None
    assert verdict.confidence >= Confidence.LIKELY
    assert verdict.detail == trap


NO_TRAPS: dict[str, tuple[Series | tuple[Fact, ...], ...]] = {
    "a greatest share": (*BUSY, told(alert=f"max({USAGE}) > 0.8", alert_value=0.44)),
    "a threshold in the unit of its series": (
        series(Signal.KV_USAGE, 0.98, name=USAGE),
        told(alert_rule=f"{USAGE} > 0.9"),
    ),
    "a rate of a counter": (PREEMPTED, told(alert="rate(vllm:num_preemptions_total[5m]) > 1000")),
    "a device that is busy and full": (
        series(Signal.DEVICE_USAGE, 0.99, name="DCGM_FI_DEV_GPU_UTIL"),
        told(claim="the GPU is full, utilization 99 %", sm_active=0.81),
    ),
    "hits of prompts that share": (
        series(Signal.HIT_RATE, 0.3, kind=LOGGED, name="hit rate"),
        series(Signal.PREEMPTIONS, 412, name="vllm:num_preemptions_total"),
        told(prompts="1000, one system prompt"),
    ),
    "a rate that was better before": (
        series(Signal.HIT_RATE, 0, 0, every=60, name="sglang:cache_hit_rate"),
        told(cached_tokens_share_last_week=0.78),
    ),
    "a prefill server that nobody misjudges": PREFILLS,
    "more ended than one client sent, and not by a factor": (
        series(Signal.FINISHED, 400, 520, every=60),
        told(60, requests_sent_last_60_s=70, request_param_n=3),
    ),
    "one client of several that has its part": (
        series(Signal.GENERATION_RATE, 100, 100, every=60),
        series(Signal.RUNNING, 10, 10, every=60),
        told(60, tokens_received_by_client_last_5_s=50, num_scheduler_steps=10),
    ),
    "an idle cache whose hits were lost": (*EMPTIED, HITS_LOST),
    "blocks in use that nobody could hand out": (
        series(Signal.RUNNING, 0),
        told(kv_blocks_used=260, kv_blocks_evictable=10),
    ),
}


@pytest.mark.parametrize("what", NO_TRAPS)
def test_the_same_figures_read_rightly_are_no_trap(what: str) -> None:
    assert MISREAD.judge(window(*NO_TRAPS[what])) is None


def test_a_percentile_within_the_first_bucket_is_a_straight_line() -> None:
    reading = HistogramReading(0.0, (0.3, float("inf")), (1000.0, 1000.0), 20.0, 1000.0)
    queue = HistogramSeries(
        signal=Signal.QUEUE_TIME,
        origin=Origin(kind=SourceKind.METRICS, name="vllm:request_queue_time_seconds"),
        readings=(reading,),
    )
    found = window(told(dashboard_queue_p99_s=0.297), histograms=(queue,))
    verdict = MISREAD.judge(found)
    assert verdict is not None
    assert verdict.detail == "below first bucket"
    assert 0.02 in reckoned(verdict)


def test_steps_that_are_not_counted_make_an_engine_seem_slower_than_its_client_sees_it() -> None:
    found = window(
        series(Signal.GENERATION_RATE, 1.4, 1.4, every=5, kind=LOGGED),
        series(Signal.RUNNING, 1, 1, every=5, kind=LOGGED),
        told(5, tokens_received_by_client_last_5_s=69, num_scheduler_steps=10),
    )
    verdict = MISREAD.judge(found)
    assert verdict is not None
    assert verdict.detail == "counted by a factor"
