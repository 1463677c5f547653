"""Who refuses says what was used and what is allowed, each in his own words."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.callers.rejecting import REJECTING
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window

IDLE = (
    series(Signal.RUNNING, 0, 0),
    series(Signal.WAITING, 0, 0),
    series(Signal.KV_USAGE, 0.0, 0.0),
)


@pytest.mark.parametrize(
    "line",
    [
        "429: type = team. current rpm: 1, rpm limit: 15, current tpm: 12260, tpm limit: 5000",
        "RateLimitError: 429 Key over its limit. Used 8120, allowed 6000",
        "429 limit_type=user current_rpm=12 rpm_limit=10 remaining=0",
    ],
    ids=["of several limits one", "of one limit", "as keys and values"],
)
def test_a_limit_that_is_crossed_in_one_line_is_proof(line: str) -> None:
    verdict = REJECTING.judge(window(*IDLE, line))
    assert verdict is not None
    assert verdict.confidence is Confidence.CERTAIN


@pytest.mark.parametrize(
    "line",
    [
        "429: type = team. current rpm: 1, rpm limit: 15, current tpm: 260, tpm limit: 5000",
        "429: current rpm: 900, tpm limit: 500",
        "disk usage: used 120, limit 100",
    ],
    ids=["none is reached", "of another unit", "nobody is refused"],
)
def test_a_line_that_crosses_no_limit_of_requests_proves_nothing(line: str) -> None:
    assert REJECTING.judge(window(*IDLE, line)) is None
