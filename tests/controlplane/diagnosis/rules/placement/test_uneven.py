"""One replica that has the most, beside one that is only slow."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    counter,
    fleet,
    found,
    gauge,
    same,
    wobble,
)


def test_a_replica_that_has_and_does_most_is_skewed_and_one_that_is_slow_is_not() -> None:
    def load(running: float, tokens: float, replica: str) -> list[Series]:
        return [
            gauge(Signal.RUNNING, wobble(running), replica),
            counter(Signal.GENERATION_TOKENS, same(tokens), replica),
        ]

    skewed = fleet(*load(9, 300, "a"), *load(2, 60, "b"), *load(1, 40, "c"))
    assert found(skewed) == {Mechanism.ROUTING_SKEW: Confidence.LIKELY}
    slow = fleet(*load(9, 60, "a"), *load(2, 80, "b"), *load(1, 60, "c"))
    assert found(slow) == {}
