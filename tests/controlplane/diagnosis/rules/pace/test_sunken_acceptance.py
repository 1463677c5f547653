"""Drafts that were accepted and are not any more, by an engine's own figure."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules.pace.speculation import judge
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


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
    series = Series(
        signal=Signal.ACCEPTANCE_RATE,
        origin=Origin(kind=SourceKind.METRICS, name="sglang:spec_accept_rate"),
        readings=tuple(Reading(10.0 * at, value, f"{value:g}") for at, value in enumerate(values)),
    )
    verdict = judge(Window(start=0, end=60, series=(series,)))
    assert (None if verdict is None else verdict.confidence) == confidence
