"""Figures that contradict themselves or each other, beside those that only look so."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import ONSET, fleet, found, gauge, wobble


@pytest.mark.parametrize(("left", "is_misread"), [(2000.0, True), (150.0, False)])
def test_a_counter_that_fell_to_more_than_a_new_process_could_count_is_misread(
    left: float, is_misread: bool
) -> None:
    def total(at: float) -> float:
        return 10_000 + 100 * at if at < ONSET else left + 100 * (at - ONSET)

    series = [gauge(Signal.GENERATION_TOKENS, total, "a")]
    assert (Mechanism.TELEMETRY_MISREAD in found(fleet(*series))) is is_misread


def test_gauges_that_become_several_times_what_was_sent_are_misread() -> None:
    running = gauge(Signal.RUNNING, lambda at: wobble(6)(at) * (1 if at < ONSET else 3), "a")
    series = [running, gauge(Signal.GATEWAY_IN_FLIGHT, wobble(6))]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_MISREAD: Confidence.LIKELY}
    leaking = gauge(Signal.RUNNING, lambda at: wobble(6)(at) + max(0.0, at - ONSET), "a")
    assert Mechanism.TELEMETRY_MISREAD not in found(fleet(leaking, series[1]))


@pytest.mark.parametrize(("at", "confidence"), [(40, Confidence.LIKELY), (0, Confidence.POSSIBLE)])
def test_percent_under_the_name_of_a_ratio_is_misread_where_it_was_a_ratio_before(
    at: float, confidence: Confidence
) -> None:
    doubt = Doubt(kind=DoubtKind.UNIT_GUESSED, name="usage", what="usage is 41.2", at=at)
    window = fleet(gauge(Signal.KV_USAGE, lambda at: at / 200, "a"), doubts=[doubt])
    assert found(window) == {Mechanism.TELEMETRY_MISREAD: confidence}
