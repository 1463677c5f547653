"""Words and figures that look like clocks held against each other, and are not."""

import os
import time
from collections.abc import Iterator

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.skew import SKEW
from controlplane.diagnosis.window import Change
from tests.controlplane.diagnosis.rules.build_window import told, window


@pytest.mark.parametrize(
    "parts",
    [
        (told(gpu_clock="slow, thermal throttling", time_between_tokens_ms=80),),
        (Change(at=-30, what="max-num-seqs set back to 64"), told(time_between_tokens_ms=30)),
        (told(client_timeout_s=60, p95_latency_vs_last_week_ms=-15, server="vllm"),),
        (told(client="curl", request_id="12345678901234567890", server="vllm"),),
        (told(auth="token not yet valid", hop_ms=3),),
        (told(client="c", responses_ended_before_drain=12, server="s"),),
        (told(one_way_ms=3, shard_skew_s=2.5),),
        (told(wall_clock_s=120, cross_zone_ms=4),),
        (told(elapsed_shown_s=3610, request_p95_latency_s=12),),
        (told(elapsed_shown_s=4500, latency_at_gateway_s=12, viewer_time_zone="UTC+1"),),
    ],
    ids=[
        *("a chip's clock", "a setting", "a comparison", "a name", "a token's own date"),
        *("an end before something else", "work that is skewed", "a duration"),
        *("a long request and others", "an hour and a quarter"),
    ],
)
def test_no_clock_was_held_against_another(parts: tuple[tuple[Fact, ...] | Change, ...]) -> None:
    assert SKEW.judge(window(*parts)) is None


@pytest.fixture(params=["UTC", "Asia/Tokyo", "America/New_York"])
def _zone(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.environ.get("TZ")
    os.environ["TZ"] = request.param
    time.tzset()
    yield
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.usefixtures("_zone")
@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("2026-03-02T10:00:01Z", "2026-03-02T10:00:02"),
        ("2026-03-02T12:00:01", "2026-03-02T11:00:02Z"),
        ("2026-03-02T12:00:01", "2026-03-02T11:00:02"),
        ("14:30:01.0", "09:00:01.2"),
        ("23:59:59.9", "00:00:00.1"),
        (86399.9, 0.1),
    ],
    ids=["no zone", "another zone", "an hour", "half an hour", "midnight", "seconds of a day"],
)
def test_zones_and_midnight_are_no_skew_wherever_it_is_judged(
    sent: str | float, received: str | float
) -> None:
    assert SKEW.judge(window(told(client_sent_at=sent, server_received_at=received))) is None


@pytest.mark.parametrize(
    ("facts", "confidence"),
    [
        (told(decode_start_ms=100, prefill_end_ms=140), Confidence.POSSIBLE),
        (
            told(decode_start_at_s=1200.4, prefill_end_at_s=1200.5, prefill_replicas=2),
            Confidence.POSSIBLE,
        ),
        (
            told(1, decode_start_at_s=1200.4, prefill_end_at_s=1202.5)
            + told(2, decode_start_at_s=1300.4, prefill_end_at_s=1302.51),
            Confidence.LIKELY,
        ),
        (told(decode_start_ms=100, prefill_end_ms=140, ntp_synced="no"), Confidence.CERTAIN),
    ],
    ids=["two durations", "layers that overlap", "by the same each time", "an unkept clock"],
)
def test_phases_may_overlap_unless_it_is_by_the_same_each_time(
    facts: tuple[Fact, ...], confidence: Confidence
) -> None:
    verdict = SKEW.judge(window(facts))
    assert verdict is not None
    assert verdict.confidence is confidence
