"""Counts, buckets and pools that are taken for what they are not."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.misread import MISREAD
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window
from tests.controlplane.diagnosis.rules.histograms import histogram, with_histograms

COUNTED = (
    series(Signal.PROMPT_TOKENS, 301_244, name="vllm:prompt_tokens_total"),
    series(Signal.GENERATION_TOKENS, 111_760, name="vllm:generation_tokens_total"),
    series(Signal.KV_USAGE, 0.41, name="vllm:kv_cache_usage_perc"),
)
FORMULA = "prompt_tokens_total + generation_tokens_total"
FINISHED = series(Signal.FINISHED, 3918, name="vllm:request_success_total")


def _judged(found: Window) -> Confidence | None:
    verdict = MISREAD.judge(found)
    return None if verdict is None else verdict.confidence


@pytest.mark.parametrize(
    ("facts", "confidence"),
    [
        (told(dashboard_formula=FORMULA, dashboard_value=413_004), Confidence.CERTAIN),
        (told(tokens_in_the_batch_now=111_760), Confidence.LIKELY),
        (told(dashboard_formula=f"rate({FORMULA}[5m])", dashboard_value=413_004), None),
        (told(dashboard_formula=FORMULA, dashboard_value=37_000), None),
    ],
    ids=["their sum", "one of them", "a rate", "another value"],
)
def test_counts_since_the_start_are_not_in_hand(
    facts: tuple[Fact, ...], confidence: Confidence | None
) -> None:
    assert _judged(window(*COUNTED, facts)) is confidence


@pytest.mark.parametrize(
    ("facts", "confidence"),
    [
        (told(requests_sent=3918, answers_complete=3918, http_errors=0), Confidence.CERTAIN),
        (told(requests_sent=8060, http_errors=0), None),
        (told(requests_sent=3918, errors=41), None),
    ],
    ids=["all are answered", "more were sent", "some were lost"],
)
def test_a_histogram_counts_its_observations_and_no_requests(
    facts: tuple[Fact, ...], confidence: Confidence | None
) -> None:
    found = with_histograms(window(FINISHED, facts), histogram(Signal.TTFT, {}, {0.25: 8060}))
    assert _judged(found) is confidence


def test_a_percentile_at_the_last_bound_is_no_measurement() -> None:
    found = with_histograms(
        window(told(ttft_p99_s=10.0)),
        histogram(Signal.TTFT, {}, {5.0: 800, 10.0: 100, float("inf"): 100}),
    )
    assert _judged(found) is Confidence.CERTAIN


@pytest.mark.parametrize(("full", "confidence"), [(0.12, Confidence.CERTAIN), (0.9, None)])
def test_the_greatest_of_several_pools_is_not_the_cache(
    full: float, confidence: Confidence | None
) -> None:
    pools = [
        series(Signal.POOL_USAGE, value, name=f"sglang:{pool}_usage", pool=pool)
        for pool, value in (("full", full), ("mamba", 0.94))
    ]
    usage = series(Signal.KV_USAGE, 0.94, name="sglang:token_usage")
    alert = told(alert="KV cache = sglang:token_usage > 0.9")
    assert _judged(window(usage, *pools, alert)) is confidence


@pytest.mark.parametrize(
    ("facts", "confidence"),
    [
        (told(panel_ttft_s=240, client_ttft_ms=240), Confidence.LIKELY),
        (told(panel_ttft_s=0.24, client_ttft_ms=240), None),
        (
            told(
                alert="node memory > 95 %",
                host_mem_used_percent=97,
                mem_available_gib=410,
                mem_total_gib=512,
                buff_cache_gib=388,
            ),
            Confidence.CERTAIN,
        ),
        (
            told(
                alert="node memory > 95 %",
                host_mem_used_percent=97,
                mem_available_gib=9,
                mem_total_gib=512,
            ),
            None,
        ),
    ],
    ids=["another unit", "the same unit", "files are cached", "nothing is left"],
)
def test_units_and_caches_of_files(facts: tuple[Fact, ...], confidence: Confidence | None) -> None:
    assert _judged(window(facts)) is confidence
