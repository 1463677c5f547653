"""Arrivals that multiply: the same callers again, or more of them."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    counter,
    fleet,
    found,
    gateway,
    switched,
    wobble,
)


def test_arrivals_that_multiply_while_less_is_done_are_retries() -> None:
    tokens = counter(Signal.GENERATION_TOKENS, switched(300, 60), "a")
    storm = [tokens, *gateway(switched(6, 50), switched(6, 50), wobble(20))]
    assert found(fleet(*storm)) == {Mechanism.QUEUE_RETRY_STORM: Confidence.LIKELY}
    busy = counter(Signal.GENERATION_TOKENS, switched(300, 900), "a")
    more_callers = [busy, *gateway(switched(6, 50), switched(6, 50), wobble(20))]
    assert found(fleet(*more_callers)) == {}
