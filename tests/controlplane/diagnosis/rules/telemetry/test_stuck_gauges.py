"""Gauges that stay to the digit, beside those of a batch that is full."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    EVERY,
    ONSET,
    counter,
    fleet,
    found,
    gauge,
    same,
)


def test_a_share_that_stays_to_the_digit_while_tokens_come_is_stale() -> None:
    usage = gauge(Signal.KV_USAGE, lambda at: 0.3 if at >= ONSET else at / 100, "a")
    series = [usage, counter(Signal.GENERATION_TOKENS, same(100), "a")]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_STALE: Confidence.LIKELY}
    full = gauge(Signal.KV_USAGE, same(1), "a")
    assert found(fleet(full, series[1])) == {}


def test_batches_that_stay_while_what_is_in_flight_changes_are_stale() -> None:
    sent = gauge(Signal.GATEWAY_IN_FLIGHT, lambda at: 4 + (at / EVERY) % 7)
    tokens = counter(Signal.GENERATION_TOKENS, same(100), "a")
    stuck = gauge(Signal.RUNNING, lambda at: 5.0 if at >= ONSET else 8 - at / 10, "a")
    assert found(fleet(stuck, tokens, sent)) == {Mechanism.TELEMETRY_STALE: Confidence.LIKELY}
    full = gauge(Signal.RUNNING, same(8), "a")
    assert found(fleet(full, tokens, sent)) == {}
