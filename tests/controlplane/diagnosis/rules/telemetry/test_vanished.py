"""Series that end: with a restart, or while their page goes on."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Reading, Series
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_fleet import (
    ONSET,
    counter,
    fleet,
    found,
    gauge,
    same,
    wobble,
)


def test_a_series_that_ends_while_its_page_goes_on_is_missing() -> None:
    series = [
        gauge(Signal.RUNNING, wobble(5), "a", until=ONSET),
        counter(Signal.GENERATION_TOKENS, same(100), "a"),
    ]
    assert found(fleet(*series)) == {Mechanism.TELEMETRY_MISSING: Confidence.LIKELY}


def test_series_that_go_with_a_restart_are_not_missing() -> None:
    tokens = counter(Signal.GENERATION_TOKENS, same(100), "a")
    fallen = tuple(
        Reading(each.at, each.value if each.at < ONSET else each.at, each.raw)
        for each in tokens.readings
    )
    restarted = Series(
        signal=tokens.signal, origin=tokens.origin, readings=fallen, labels=tokens.labels
    )
    series = [gauge(Signal.RUNNING, wobble(5), "a", until=ONSET), restarted]
    assert Mechanism.TELEMETRY_MISSING not in found(fleet(*series))
