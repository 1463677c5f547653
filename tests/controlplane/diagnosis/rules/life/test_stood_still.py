"""Answers that stand still again and again are told of; slow ones, and those held up alone, not."""

from dataclasses import replace

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import (
    HistogramReading,
    HistogramSeries,
    Origin,
    Series,
    SourceKind,
)
from controlplane.diagnosis.rules.life.hung import HUNG
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.rules.build_window import series, told, window

BOUNDS = (0.05, 0.5, 1.0, 2.0, 3.0, 5.0, float("inf"))
STOPPED = (0, 4, 8, 12)
"""Answers with a gap of 3 to 5 s, in each reading."""
SCRAPES = told(90, scrapes_unanswered=4, scrape_failure="no answer within 2 s")
SHORT = series(Signal.GATEWAY_PROMPT_TOKENS, 0, 400, 800, 1200, every=30)
LONG = series(Signal.GATEWAY_PROMPT_TOKENS, 0, 40_000, 80_000, 120_000, every=30)


def gaps(*num_long: int, of: int = 6) -> HistogramSeries:
    """A reading every 30 s, by which `num_long` and so many others had ended."""
    readings = []
    for place, num in enumerate(num_long):
        short, every = float(of * place), float(of * place + num)
        counts = (0.0, short, short, short, short, every, every)
        readings.append(HistogramReading(30.0 * place, BOUNDS, counts, 4.0 * num, every))
    return _histogram(Signal.GATEWAY_LONGEST_GAP, *readings)


def pace(seconds: float) -> HistogramSeries:
    """TPOT of all of them."""
    bounds = (seconds / 2, seconds, float("inf"))
    return _histogram(
        Signal.GATEWAY_TPOT,
        HistogramReading(0.0, bounds, (0.0, 0.0, 0.0), 0.0, 0.0),
        HistogramReading(90.0, bounds, (0.0, 30.0, 30.0), 30 * seconds, 30.0),
    )


def _histogram(signal: Signal, *readings: HistogramReading) -> HistogramSeries:
    origin = Origin(kind=SourceKind.METRICS, name=signal.value)
    return HistogramSeries(signal=signal, origin=origin, readings=readings)


def found(*histograms: HistogramSeries, beside: tuple[object, ...] = ()) -> Window:
    parts = (series(Signal.GATEWAY_IN_FLIGHT, 3, 3, 3, 3, every=30), *beside)
    return replace(window(*parts), histograms=histograms)  # type: ignore[arg-type]


def confidence(whole: Window) -> Confidence | None:
    verdict = HUNG.judge(whole)
    return None if verdict is None else verdict.confidence


def test_short_stops_again_and_again_are_possibly_those_of_the_engine() -> None:
    verdict = HUNG.judge(found(gaps(*STOPPED), pace(0.03)))
    assert verdict is not None
    assert verdict.confidence is Confidence.POSSIBLE
    assert verdict.needs


def test_beside_a_page_that_did_not_answer_either_it_is_likely() -> None:
    whole = found(gaps(*STOPPED), pace(0.03), beside=(SCRAPES, SHORT))
    assert confidence(whole) is Confidence.LIKELY


def test_long_prompts_leave_it_open() -> None:
    whole = found(gaps(*STOPPED), pace(0.03), beside=(SCRAPES, LONG))
    assert confidence(whole) is Confidence.POSSIBLE


@pytest.mark.parametrize("num_long", [(0, 0, 0, 0), (0, 0, 9, 9), (0, 1, 1, 2)])
def test_no_stop_one_stop_and_two_answers_are_none_that_comes_again(num_long: tuple[int]) -> None:
    assert confidence(found(gaps(*num_long), pace(0.03))) is None


def test_an_engine_that_is_slow_all_the_time_does_not_stand_still() -> None:
    assert confidence(found(gaps(*STOPPED), pace(0.5))) is None


@pytest.mark.parametrize(
    "own",
    [
        series(Signal.PREEMPTIONS, 0, 3, 6, 9, every=30),
        series(Signal.GATEWAY_SLOW_CLIENTS, 0, 3, 6, 9, every=30),
    ],
    ids=["thrown out of the batch", "clients that do not read"],
)
def test_what_holds_up_single_answers_is_no_stop_of_the_engine(own: Series) -> None:
    assert confidence(found(gaps(*STOPPED), pace(0.03), beside=(own,))) is None
