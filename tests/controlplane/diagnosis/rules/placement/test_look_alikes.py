"""Figures that look like a trouble by their words, beside an engine that is busy and well."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules import PACE, PLACEMENT
from controlplane.diagnosis.rules.placement.uneven import UNEVEN
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

BUSY = (
    series(Signal.RUNNING, *[8] * 7),
    series(Signal.WAITING, *[0] * 7),
    series(Signal.KV_USAGE, *[0.2] * 7),
    series(Signal.GENERATION_RATE, *[240] * 7),
)


@pytest.mark.parametrize(
    "values",
    [
        {"trace_sample_ratio": 1.0},
        {"scheduled_share": 0.9},
        {"ring_buffer_fill": 0.6},
        {"weight_sync_progress": 0.5},
        {"nccl_buffer_memory_percent": 40},
        {"kv_transfer_success_percent": 99.9},
        {"kv_transfer_ms": 30, "ttft_ms": 60},
        {"weight_prefetch_ms": 40, "ttft_ms": 60},
        {"kv_transfer_start_s": 510.1, "ctx_first_token_time_s": 512.9},
        {"transfers_in_flight_mean": 20},
        {"peak_rps": 50, "client_concurrency": 1, "gpu_util": 0.12},
        {"disk0": 90, "disk1": 2, "disk2": 1},
        {"requests_by_model": {"big": 950, "small": 30, "tiny": 10}},
        {"script_a_requests": 100, "script_b_requests": 900},
        {"prefill_pool_util_percent": 95, "decode_pool_util_percent": 30},
        {"prefill_token_usage": 0.1, "decode_token_usage": 0.9},
        {"enforce_eager": True, "gpu_util_percent": 40},
        {"load_average": 3.2, "gpu_util_percent": 40},
        {"cpu_steal_percent": 0.1, "gpu_util_percent": 40},
        {"client_load_average": 64, "host_cores": 8, "gpu_util_percent": 40},
        {"turns_in_the_same_minute": 0.04},
    ],
    ids=lambda values: next(iter(values)),
)
def test_words_alone_are_no_trouble(values: dict[str, object]) -> None:
    seen = window(*BUSY, told(60, **values))
    assert not [each for each in (*PACE, *PLACEMENT) if _names(each, seen)]


def _names(rule: Rule, seen: Window) -> bool:
    verdict = rule.judge(seen)
    return verdict is not None and verdict.confidence >= Confidence.LIKELY


def test_a_refused_model_is_a_typo_until_somebody_has_it() -> None:
    line = "ERROR serving.py The model `gpt-4` does not exist."
    typo = window(*BUSY, line, told(60, replicas=2))
    assert not [each for each in PLACEMENT if _names(each, typo)]
    known = window(*BUSY, line, told(60, replicas=2, share_of_404_percent=50))
    assert [each for each in PLACEMENT if _names(each, known)]


@pytest.mark.parametrize(
    ("names", "change", "is_skew"),
    [
        (("vllm-0", "vllm-1"), "scaled up", True),
        (("stable", "canary"), "canary weight 5 %", False),
        (("chat", "embed"), "scaled up", False),
    ],
)
def test_places_that_are_not_meant_to_have_the_same_are_no_skew(
    names: tuple[str, str], change: str, is_skew: bool
) -> None:
    running = [
        series(Signal.RUNNING, *[load] * 7, replica=name)
        for name, load in zip(names, (40, 1), strict=True)
    ]
    work = [
        series(Signal.GENERATION_TOKENS, *[load * 300 * step for step in range(7)], replica=name)
        for name, load in zip(names, (40, 1), strict=True)
    ]
    seen = window(*running, *work, Change(at=-60, what=change))
    found = [each for each in (UNEVEN, *PLACEMENT) if _names(each, seen)]
    assert bool(found) is is_skew


def test_speeds_under_other_loads_are_no_measure_of_a_precision() -> None:
    fewer = told(
        60,
        in_flight_before=64,
        tokens_per_s_before=900,
        in_flight_after=20,
        tokens_per_s_after=450,
        weights_gib_before=28,
        weights_gib_after=15,
    )
    seen = window(fewer, Change(at=0, what="switched to the fp8 checkpoint"))
    assert not [each for each in PACE if _names(each, seen)]
