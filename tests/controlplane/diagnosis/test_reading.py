"""Readings over time: counters that restart, histograms within a window, labels joined."""

import pytest

from controlplane.diagnosis.reading import (
    HistogramReading,
    HistogramSeries,
    Origin,
    Reading,
    Series,
    SourceKind,
)
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.window import Window

ORIGIN = Origin(kind=SourceKind.METRICS, name="vllm:something")


def series(signal: Signal, *values: float, every: float = 10.0, **labels: str) -> Series:
    readings = tuple(Reading(i * every, value, f"{value:g}") for i, value in enumerate(values))
    return Series(signal=signal, origin=ORIGIN, readings=readings, labels=labels)


def histogram(*readings: HistogramReading) -> HistogramSeries:
    return HistogramSeries(signal=Signal.TTFT, origin=ORIGIN, readings=readings)


def test_a_counter_that_falls_was_restarted_from_zero() -> None:
    counter = series(Signal.PREEMPTIONS, 100, 130, 5, 15)
    assert counter.increase == 30 + 5 + 10
    assert counter.per_second == pytest.approx(45 / 30)


def test_one_reading_has_no_rate() -> None:
    assert series(Signal.PREEMPTIONS, 7).increase is None
    assert series(Signal.PREEMPTIONS, 7).per_second is None
    assert not series(Signal.RUNNING, 7).is_constant


def test_a_reading_is_found_by_time() -> None:
    gauge = series(Signal.RUNNING, 1, 2, 3)
    assert gauge.at(-1) is None
    found = gauge.at(19.9)
    assert found is not None
    assert found.value == 2
    part = gauge.between(5, 20)
    assert part is not None
    assert list(part.values) == [2, 3]
    assert gauge.between(21, 30) is None


INFINITY = float("inf")


def test_a_histogram_tells_what_was_observed_within_the_window() -> None:
    before = HistogramReading(0, (1, 2, INFINITY), (10, 10, 10), 5, 10)
    after = HistogramReading(60, (1, 2, INFINITY), (10, 20, 20), 20, 20)
    assert histogram(before, after).mean == pytest.approx(1.5)
    assert histogram(before, after).quantile(0.5) == pytest.approx(1.5)
    assert histogram(after).quantile(0.25) == pytest.approx(0.5)


def test_a_histogram_of_a_process_that_restarted_counts_from_its_start() -> None:
    before = HistogramReading(0, (1, INFINITY), (10, 10), 5, 10)
    after = HistogramReading(60, (1, INFINITY), (4, 4), 2, 4)
    assert histogram(before, after).observed.count == 4


def test_beyond_the_last_finite_bound_the_bound_is_told() -> None:
    only = HistogramReading(0, (1, INFINITY), (1, 10), 99, 10)
    assert histogram(only).quantile(0.99) == 1
    assert histogram(HistogramReading(0, (1, INFINITY), (0, 0), 0, 0)).quantile(0.5) is None


def test_ranks_are_added_and_of_ratios_the_fullest_counts() -> None:
    window = Window(
        start=0,
        end=20,
        series=(
            series(Signal.RUNNING, 8, 27, 27, engine="0"),
            series(Signal.RUNNING, 8, 5, engine="1"),
            series(Signal.KV_USAGE, 0.2, 0.9, 0.9, engine="0"),
            series(Signal.KV_USAGE, 0.2, 0.1, 0.1, engine="1"),
        ),
    )
    running = window.find(Signal.RUNNING)
    usage = window.find(Signal.KV_USAGE)
    assert running is not None
    assert usage is not None
    assert list(running.values) == [16, 32, 32]
    assert list(usage.values) == [0.2, 0.9, 0.9]
    alone = window.find(Signal.RUNNING, engine="1")
    assert alone is not None
    assert list(alone.values) == [8, 5]
    assert window.find(Signal.WAITING) is None
