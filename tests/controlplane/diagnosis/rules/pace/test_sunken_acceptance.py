"""Drafts that were accepted and are not any more, by an engine's own figure."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules.pace.acceptance import fell
from controlplane.diagnosis.rules.pace.speculation import judge
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window


@pytest.mark.parametrize(
    ("values", "confidence"),
    [
        ((0.6, 0.59, 0.6, 0.4, 0.3, 0.24, 0.2), Confidence.LIKELY),
        ((0.24, 0.2, 0.22, 0.24, 0.2, 0.22, 0.2), Confidence.POSSIBLE),
        ((0.6, 0.59, 0.6, 0.6, 0.61, 0.6, 0.58), None),
    ],
)
def test_a_share_that_sinks_is_told_apart_from_one_that_was_always_low(
    values: tuple[float, ...], confidence: Confidence | None
) -> None:
    rate = Series(
        signal=Signal.ACCEPTANCE_RATE,
        origin=Origin(kind=SourceKind.METRICS, name="sglang:spec_accept_rate"),
        readings=tuple(Reading(10.0 * at, value, f"{value:g}") for at, value in enumerate(values)),
    )
    verdict = judge(Window(start=0, end=60, series=(rate,)))
    assert (None if verdict is None else verdict.confidence) == confidence


def test_gauges_that_stand_at_zero_are_of_an_engine_that_drafts_nothing() -> None:
    """SGLang exports both on every page. Whoever verifies accepts one token of its own at least."""

    def at(rate: float, length: float) -> Window:
        return window(
            series(Signal.ACCEPTANCE_RATE, *[rate] * 7),
            series(Signal.ACCEPTANCE_LENGTH, *[length] * 7),
        )

    assert judge(at(0.0, 0.0)) is None
    assert fell(at(0.0, 0.0)) == ""
    assert judge(at(0.02, 1.05)) is not None
