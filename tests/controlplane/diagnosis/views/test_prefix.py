"""The share of tokens that were found in the prefix cache, by intervals."""

from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


def _series(signal: Signal, values: list[float]) -> Series:
    return Series(
        signal=signal,
        origin=Origin(kind=SourceKind.METRICS, name=signal.value),
        readings=tuple(Reading(5.0 * i, value, f"{value:g}") for i, value in enumerate(values)),
    )


def _rates(asked: list[float], found: list[float]) -> tuple[float, ...]:
    window = Window(
        start=0.0,
        end=5.0 * len(asked),
        series=(_series(Signal.PREFIX_QUERIES, asked), _series(Signal.PREFIX_HITS, found)),
    )
    rates = hit_rates(window)
    assert rates is not None
    return rates.values


def test_a_lone_probe_that_finds_nothing_after_the_load_is_no_loss_of_the_prefix() -> None:
    asked = [0.0, 1000.0, 2000.0, 3000.0, 3000.0, 3002.0, 3004.0]
    found = [0.0, 900.0, 1800.0, 2700.0, 2700.0, 2700.0, 2700.0]
    assert _rates(asked, found) == (0.9, 0.9, 0.9)


def test_where_probes_alone_are_left_they_are_not_compared_with_all_that_was_before() -> None:
    asked = [50_000.0, 50_002.0, 50_004.0, 50_006.0]
    assert _rates(asked, [45_000.0] * 4) == (0.9,)


def test_less_traffic_that_finds_less_is_told() -> None:
    asked = [0.0, 1000.0, 2000.0, 2100.0, 2200.0]
    found = [0.0, 900.0, 1800.0, 1810.0, 1820.0]
    assert _rates(asked, found) == (0.9, 0.9, 0.1, 0.1)
