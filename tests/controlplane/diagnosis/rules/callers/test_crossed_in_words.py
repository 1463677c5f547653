"""Who refuses says what was used and what is allowed, each in his own words."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.callers.rejecting import REJECTING
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import fact, series, window

IDLE = (
    series(Signal.RUNNING, 0, 0),
    series(Signal.WAITING, 0, 0),
    series(Signal.KV_USAGE, 0.0, 0.0),
)


BUSY = (
    series(Signal.RUNNING, 6, 8),
    series(Signal.WAITING, 0, 0),
    series(Signal.KV_USAGE, 0.3, 0.35),
    series(Signal.GENERATION_TOKENS, 1000, 9000),
)
CROSSED = [
    "429: type = team. current rpm: 1, rpm limit: 15, current tpm: 12260, tpm limit: 5000",
    "RateLimitError: 429 Key over its limit. Used 8120, allowed 6000",
    "429 limit_type=user current_rpm=12 rpm_limit=10 remaining=0",
    "too many requests: current rpm: 61, rpm limit: 60",
]


@pytest.mark.parametrize("line", CROSSED)
def test_a_limit_that_is_crossed_by_refusals_that_are_counted_is_proof(line: str) -> None:
    verdict = REJECTING.judge(window(*IDLE, fact("http_429_last_60_s", 4), line))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize("line", CROSSED)
def test_one_line_is_of_one_refusal(line: str) -> None:
    alone = REJECTING.judge(window(*IDLE, line))
    assert alone is not None
    assert alone.confidence is Confidence.LIKELY
    busy = REJECTING.judge(window(*BUSY, line))
    assert busy is not None
    assert busy.confidence is Confidence.POSSIBLE
    assert busy.needs


@pytest.mark.parametrize(
    "line",
    [
        "429: type = team. current rpm: 1, rpm limit: 15, current tpm: 260, tpm limit: 5000",
        "429: current rpm: 900, tpm limit: 500",
        "disk usage: used 120, limit 100",
        "mem: current resident: 65, resident limit: 64",
        "mem: current resident: 429, resident limit: 64",
        "io: current rate: 65, rate limit: 64",
    ],
    ids=[
        "none is reached",
        "of another unit",
        "of a disk",
        "of memory",
        "of memory, as many as a status",
        "of a rate that refuses nobody",
    ],
)
def test_a_line_that_crosses_no_limit_of_requests_proves_nothing(line: str) -> None:
    assert REJECTING.judge(window(*IDLE, line)) is None
    assert REJECTING.judge(window(*BUSY, line)) is None
