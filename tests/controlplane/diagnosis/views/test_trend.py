"""A course of real scrapes: repeated values, and values that are a little back."""

import pytest

from controlplane.diagnosis.views.trend import falls, rises

NOISE = (0, 1, -1, 2, -2, 1)


@pytest.mark.parametrize(
    "values",
    [
        [118, 41, 0],
        [90, 84, 84, 72, 66],
        [90, 84, 85, 72, 66],
        [118, 118, 80, 80, 41, 41, 0, 0],
        [200 - step + NOISE[step % 6] for step in range(200)],
    ],
    ids=["each time", "one repeated", "one back", "each twice", "a scrape a second"],
)
def test_what_mostly_goes_one_way_falls_and_backwards_rises(values: list[float]) -> None:
    assert falls(values)
    assert not rises(values)
    assert rises(values[::-1])


@pytest.mark.parametrize(
    "values",
    [
        [],
        [7],
        [7, 7, 7, 7],
        [118, 118, 0],
        [90, 66, 90, 70, 88],
        [50 + NOISE[step % 6] for step in range(200)],
    ],
    ids=["nothing", "one", "stands", "two loads", "by turns", "about one level"],
)
def test_what_stands_or_swings_goes_no_way(values: list[float]) -> None:
    assert not falls(values)
    assert not rises(values)
