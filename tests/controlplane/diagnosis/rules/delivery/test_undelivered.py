"""Answers that are done and that nobody reads."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import ONSET, fleet, found, gauge, wobble


def test_answers_that_are_done_and_not_read_are_slow_clients() -> None:
    series = [
        gauge(Signal.GATEWAY_UNDELIVERED, lambda at: 10 + max(0.0, at - ONSET)),
        gauge(Signal.GATEWAY_IN_FLIGHT, wobble(10)),
    ]
    assert found(fleet(*series)) == {Mechanism.DELIVERY_SLOW_CLIENT: Confidence.LIKELY}
    few = [gauge(Signal.GATEWAY_UNDELIVERED, wobble(14)), series[1]]
    assert found(fleet(*few)) == {}
