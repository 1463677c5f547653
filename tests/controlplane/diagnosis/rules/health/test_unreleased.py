"""Requests that ended and are released with the next step, and those that stay."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.healthy import HEALTHY
from controlplane.diagnosis.verdict import Verdict
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, window


def _judged(*unreleased: float, every: float = 1.0) -> Verdict | None:
    def read(signal: Signal, *values: float) -> Series:
        return series(signal, *values, every=every)

    count = len(unreleased)
    return HEALTHY.judge(
        window(
            read(Signal.RUNNING, *[6] * count),
            read(Signal.WAITING, *[0] * count),
            read(Signal.KV_USAGE, *[0.08] * count),
            read(Signal.GENERATION_TOKENS, *(12 * index for index in range(count))),
            read(Signal.PREEMPTIONS, *[0] * count),
            read(Signal.UNRELEASED, *unreleased),
            engine="pilothouse",
        )
    )


@pytest.mark.parametrize("newest", [(0, 1), (1, 1), (1, 2, 1)])
def test_one_that_just_ended_is_no_symptom(newest: tuple[float, ...]) -> None:
    verdict = _judged(*[0.0] * 15, *newest)
    assert verdict is not None
    assert verdict.confidence is Confidence.LIKELY


def test_one_that_stays_is_a_symptom() -> None:
    assert _judged(*[0.0] * 12, *[1.0] * 8) is None
    assert _judged(*[1.0] * 20) is None


def test_who_seldom_looks_does_not_see_that_it_is_released() -> None:
    assert _judged(0, 0, 0, 1, every=15.0) is None
