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
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

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


def test_a_histogram_is_followed_over_the_restart_of_its_process() -> None:
    bounds = (1, INFINITY)
    before = HistogramReading(0, bounds, (1000, 1000), 500, 1000)
    restarted = HistogramReading(60, bounds, (20, 20), 10, 20)
    after = HistogramReading(120, bounds, (1500, 1500), 760, 1500)
    assert histogram(before, restarted).observed.count == 20
    observed = histogram(before, restarted, after).observed
    assert (observed.count, observed.sum) == (1500, 760)


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


def test_the_restart_of_one_replica_is_no_work_of_the_others() -> None:
    window = Window(
        start=0,
        end=30,
        series=(
            series(Signal.GENERATION_TOKENS, 1_000_000, 1_000_010, 1_000_020, replica="a"),
            series(Signal.GENERATION_TOKENS, 500_000, 3, 13, replica="b"),
        ),
    )
    both = window.find(Signal.GENERATION_TOKENS)
    assert both is not None
    assert both.increase == 20 + 13


def test_a_replica_that_is_seen_later_brings_no_jump() -> None:
    late = Series(
        signal=Signal.GENERATION_TOKENS,
        origin=ORIGIN,
        readings=(Reading(15, 5_000_000, ""), Reading(20, 5_000_010, "")),
        labels={"replica": "b"},
    )
    first = series(Signal.GENERATION_TOKENS, 100, 110, 120, replica="a")
    both = Window(start=0, end=20, series=(first, late)).find(Signal.GENERATION_TOKENS)
    assert both is not None
    assert both.increase == 20 + 10


def test_a_gauge_of_a_replica_that_is_gone_is_not_counted_for_ever() -> None:
    gone = series(Signal.RUNNING, 5, 5, every=10, replica="b")
    stays = series(Signal.RUNNING, *[2] * 20, every=10, replica="a")
    both = Window(start=0, end=190, series=(stays, gone)).find(Signal.RUNNING)
    assert both is not None
    assert both.values[:2] == (7, 7)
    assert both.last.value == 2


def test_histograms_of_replicas_are_added_though_they_are_read_at_moments_of_their_own() -> None:
    bounds = (1, INFINITY)

    def replica(name: str, at: float, count: float) -> HistogramSeries:
        states = (
            HistogramReading(at, bounds, (count, count), count / 2, count),
            HistogramReading(at + 10, bounds, (count + 20, count + 20), count / 2 + 5, count + 20),
        )
        return HistogramSeries(
            signal=Signal.TTFT, origin=ORIGIN, readings=states, labels={"replica": name}
        )

    window = Window(
        start=0, end=11, histograms=(replica("a", 0.1, 900_000), replica("b", 0.0, 1000))
    )
    both = window.find_histogram(Signal.TTFT)
    assert both is not None
    assert both.observed.count == 40
    assert both.mean == pytest.approx(0.25)


def test_a_setting_of_each_replica_is_added_by_nobody() -> None:
    ours = (series(Signal.KV_BLOCK_SIZE, 16, 16, replica=each) for each in ("a", "b"))
    sizes = Window(start=0, end=20, series=tuple(ours)).find(Signal.KV_BLOCK_SIZE)
    assert sizes is not None
    assert list(sizes.values) == [16, 16]
