"""Figures of a sound engine that nobody reads wrongly, relies on or acts upon: no trouble."""

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
from controlplane.diagnosis.rules.telemetry.missing import MISSING
from controlplane.diagnosis.rules.telemetry.stale import STALE
from controlplane.diagnosis.rules.telemetry.stuck_gauges import STUCK_GAUGES
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

_LOG = SourceKind.LOG
_BUSY = (
    series(Signal.RUNNING, 8, 8, 8, name="vllm:num_requests_running"),
    series(Signal.GENERATION_TOKENS, 10000, 12400, 14800, name="vllm:generation_tokens_total"),
)
_LIGHT = (series(Signal.RUNNING, 0, 0, every=30), series(Signal.FINISHED, 100, 130, every=30))
_BATCH_ENDS = (
    series(Signal.KV_USAGE, 0.2, 0.12, 0, 0.08, kind=_LOG),
    series(Signal.RUNNING, 8, 2, 0, 3, kind=_LOG),
    series(Signal.HIT_RATE, 0.3, 0.3, 0.3, 0.31, kind=_LOG),
)
_PREFILLS = (
    series(Signal.GENERATION_RATE, 0, 0, name="sglang:gen_throughput"),
    series(Signal.PROMPT_TOKENS, 50000, 80000, name="sglang:prompt_tokens_total"),
)


def _histogram(signal: Signal, name: str, count: float, total: float) -> HistogramSeries:
    readings = tuple(
        HistogramReading(at, (float("inf"),), (num,), summed, num)
        for at, num, summed in ((0.0, 100.0, 100.0), (60.0, 100 + count, 100 + total))
    )
    origin = Origin(kind=SourceKind.METRICS, name=name)
    return HistogramSeries(signal=signal, origin=origin, readings=readings)


_OVERLOAD_BEGINS = window(
    histograms=(
        _histogram(Signal.TTFT, "vllm:time_to_first_token_seconds", 12, 240),
        _histogram(Signal.E2E, "vllm:e2e_request_latency_seconds", 10, 60),
    )
)


@pytest.mark.parametrize(
    "seen",
    [
        window(*_BUSY, told(scaler_query="sum(vllm:num_requests_running)", scaler_target=16)),
        window(*_LIGHT, told(scrape_interval_s=15)),
        window(*_LIGHT, told(sampling_temperature=0.7)),
        window(*_BATCH_ENDS),
        window(*_PREFILLS, told(chunked_prefill_size=8192, schedule_policy="fcfs")),
        window(told(client_ttft_ms=300, engine_ttft_ms=150, queue_wait_ms=140)),
        _OVERLOAD_BEGINS,
    ],
    ids=[
        *("a target", "a scraper", "a setting", "a batch that ends", "a long prefill"),
        *("first tokens from arrival on", "first tokens before their ends"),
    ],
)
def test_figures_that_nobody_reads_wrongly_are_no_misreading(seen: Window) -> None:
    assert MISREAD.judge(seen) is None


def test_a_fall_that_somebody_takes_for_a_loss_is_misread() -> None:
    verdict = MISREAD.judge(window(*_BATCH_ENDS, told(ticket="the cache was evicted")))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    "facts",
    [told(alerts="none"), told(eviction_policy="none"), told(dashboard_note="no data loss")],
    ids=["no alert fires", "no policy", "nothing lost"],
)
def test_what_is_none_is_not_missing(facts: tuple[Fact, ...]) -> None:
    verdict = MISSING.judge(window(*_BUSY, facts))
    assert verdict is None or verdict.confidence is Confidence.POSSIBLE


@pytest.mark.parametrize(
    ("facts", "confidence"),
    [
        (told(last_snapshot_age_s=86400), Confidence.POSSIBLE),
        (told(last_snapshot_age_s=86400, router="by load"), Confidence.LIKELY),
        (told(scrape_age_s=600), Confidence.LIKELY),
    ],
    ids=["of whatever", "that a router looks at", "of the engine's page"],
)
def test_an_old_value_is_stale_where_somebody_acts_upon_it(
    facts: tuple[Fact, ...], confidence: Confidence
) -> None:
    verdict = STALE.judge(window(*_BUSY, facts))
    assert verdict is not None
    assert verdict.confidence is confidence


@pytest.mark.parametrize(
    ("seconds", "facts", "confidence"),
    [
        (600, (), None),
        (600, told(600, panel="gen_throughput of all servers"), Confidence.CERTAIN),
        (3600, (), Confidence.CERTAIN),
    ],
    ids=["left by the last batch", "read by a panel", "kept for an hour"],
)
def test_an_idle_servers_last_rate_is_stale_for_whoever_reads_it(
    seconds: float, facts: tuple[Fact, ...], confidence: Confidence | None
) -> None:
    idle = tuple(
        series(signal, value, value, every=seconds, name=name)
        for signal, value, name in (
            (Signal.RUNNING, 0, "sglang:num_running_reqs"),
            (Signal.GENERATION_RATE, 45.3, "sglang:gen_throughput"),
            (Signal.GENERATION_TOKENS, 9000, "sglang:generation_tokens_total"),
        )
    )
    verdict = STALE.judge(window(*idle, facts))
    assert (None if verdict is None else verdict.confidence) is confidence


@pytest.mark.parametrize(
    ("usage", "used", "confidence"),
    [
        ("vllm:kv_cache_usage_perc", (), Confidence.LIKELY),
        ("sglang:token_usage", (), None),
        ("sglang:token_usage", (25000.0,) * 13, Confidence.LIKELY),
        ("sglang:token_usage", tuple(25000.0 + num for num in range(13)), None),
    ],
    ids=["exact", "rounded", "rounded beside what stands", "rounded beside what moves"],
)
def test_a_share_of_two_digits_is_stuck_only_where_its_tokens_stand(
    usage: str, used: tuple[float, ...], confidence: Confidence | None
) -> None:
    parts: list[Series] = [
        series(Signal.KV_USAGE, *[0.05] * 13, every=5, name=usage),
        series(Signal.GENERATION_TOKENS, *range(9000, 23401, 1200), every=5),
    ]
    if used:
        parts.append(series(Signal.CONTEXT_TOKENS, *used, every=5, name="sglang:num_used_tokens"))
    verdict = STUCK_GAUGES.judge(window(*parts))
    assert (None if verdict is None else verdict.confidence) is confidence


def test_a_replica_whose_tokens_come_is_not_gone_for_what_it_evicted() -> None:
    seen = window(
        series(Signal.RUNNING, 4, 4, 4, every=30, replica="chat-1"),
        series(Signal.RUNNING, 4, 5, 3, every=30, replica="chat-2"),
        series(Signal.GENERATION_TOKENS, 0, 200, 400, every=30, replica="chat-1"),
        series(Signal.GENERATION_TOKENS, 0, 210, 390, every=30, replica="chat-2"),
        told(**{"evicted_blocks_of chat-1": 12}),
    )
    assert STALE.judge(seen) is None
