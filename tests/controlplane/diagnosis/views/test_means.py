"""How a mean was reckoned, as a finding repeats it."""

from controlplane.diagnosis.reading import HistogramReading, HistogramSeries, Origin, SourceKind
from controlplane.diagnosis.views.means import reckoned
from dataplane.engine_metrics.signal import Signal


def _read(*sums_and_counts: tuple[float, float]) -> HistogramSeries:
    return HistogramSeries(
        signal=Signal.QUEUE_TIME,
        origin=Origin(kind=SourceKind.METRICS, name="test:queue_time"),
        readings=tuple(
            HistogramReading(60.0 * index, (float("inf"),), (count,), total, count)
            for index, (total, count) in enumerate(sums_and_counts)
        ),
    )


def test_what_was_observed_between_two_readings() -> None:
    assert reckoned(_read((8700, 1272), (16070, 1454))) == "(16070 - 8700) / (1454 - 1272)"


def test_all_since_the_start_where_there_is_one_reading_or_nothing_before() -> None:
    assert reckoned(_read((18.3, 96))) == "18.3 / 96"
    assert reckoned(_read((0, 0), (18.3, 96))) == "18.3 / 96"


def test_what_began_anew_is_no_difference() -> None:
    assert reckoned(_read((900, 100), (1000, 110), (30, 10))) == "130 / 20"
