"""Whoever acts upon values of long ago, or takes fresh ones for old."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.telemetry.stale import STALE
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

IDLE = (series(Signal.RUNNING, 0, 0), series(Signal.WAITING, 0, 0))
BUSY = (series(Signal.RUNNING, 96), series(Signal.WAITING, 61))
POLLED = told(refresh_interval_s=15, metrics_staleness_threshold_ms=200)


@pytest.mark.parametrize(
    ("state", "facts", "confidence"),
    [
        (
            BUSY,
            told(pod1_waiting_seen=0, pod1_metrics_age_s=1260, pod2_metrics_age_s=0.05),
            Confidence.CERTAIN,
        ),
        (BUSY, told(pod1_metrics_age_s=1260, pod2_metrics_age_s=0.05), Confidence.LIKELY),
        (BUSY, told(pod1_metrics_age_s=4, pod2_metrics_age_s=0.05), None),
        (BUSY, told(cached_prompt_age_s=3600, model_age_days=4), None),
        (BUSY, told(90, client_gave_up=0, scrape_errors=0), None),
        (BUSY, told(90, engine_up=0), Confidence.LIKELY),
        (IDLE, POLLED, Confidence.LIKELY),
        (
            IDLE,
            POLLED + told(latency_through_router_s=12, latency_direct_ms=60),
            Confidence.CERTAIN,
        ),
        (IDLE, told(scrape_interval_s=15, stale_after_s=60), None),
    ],
    ids=[
        *("long ago and wrong", "long ago", "fresh", "other ages", "nobody gave up", "not read"),
        *("polled too seldom", "and slow for that", "polled in time"),
    ],
)
def test_the_oldest_of_what_is_acted_upon_counts(
    state: tuple[Series, ...], facts: tuple[Fact, ...], confidence: Confidence | None
) -> None:
    verdict = STALE.judge(window(*state, facts))
    assert (None if verdict is None else verdict.confidence) is confidence


def test_a_pool_that_is_full_by_hearsay_alone() -> None:
    full = series(Signal.ROUTED_FULL, 1, 1, every=120)
    idle = tuple(series(signal, 0, 0, every=120) for signal in (Signal.RUNNING, Signal.WAITING))
    verdict = STALE.judge(window(full, *idle))
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY
    assert STALE.judge(window(full, *BUSY)) is None


@pytest.mark.parametrize(
    ("by_hand", "confidence"), [(0, Confidence.LIKELY), (85, None)], ids=["idle", "as busy"]
)
def test_an_exporter_that_stands_still_is_held_against_what_is_seen_by_hand(
    by_hand: float, confidence: Confidence | None
) -> None:
    facts = told(
        exporter_gpu_util_percent=87,
        exporter_value_flat_for_min=40,
        nvidia_smi_gpu_util_percent=by_hand,
    )
    verdict = STALE.judge(window(facts))
    assert (None if verdict is None else verdict.confidence) is confidence
