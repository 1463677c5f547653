from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.simulation.decimal_scale import DecimalScale

DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=12).map(Decimal)


def decimals(*texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts]


def test_tenths_are_added_without_a_rest() -> None:
    scale = DecimalScale.of(decimals("0.1", "0.2", "8"))

    assert scale.ticks(Decimal("0.1")) + scale.ticks(Decimal("0.2")) == scale.ticks(Decimal("0.3"))
    assert scale == DecimalScale(1)


def test_digits_are_written_as_they_are_needed() -> None:
    scale = DecimalScale(2)

    assert [scale.text(ticks) for ticks in (1240, 800, 5, 0, -1)] == [
        "12.4",
        "8",
        "0.05",
        "0",
        "-0.01",
    ]
    assert [scale.number(ticks) for ticks in (1240, 800, -150)] == [12.4, 8, -1.5]
    assert isinstance(scale.number(800), int)


def test_a_scale_has_no_more_decimals_than_are_written() -> None:
    assert DecimalScale.of(decimals("1E+3", "2.50", "0.000")) == DecimalScale(1)
    assert DecimalScale(0).ticks(Decimal("1E+3")) == 1000
    assert DecimalScale.of([]) == DecimalScale(0)


def test_what_does_not_fit_a_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1 decimals"):
        DecimalScale(1).ticks(Decimal("0.25"))
    with pytest.raises(ValueError, match="no finite number"):
        DecimalScale.of([Decimal("NaN")])


@given(st.lists(DECIMALS, min_size=1))
def test_every_digit_comes_back(values: list[Decimal]) -> None:
    scale = DecimalScale.of(values)

    for value in values:
        assert Decimal(scale.text(scale.ticks(value))) == value
        assert scale.number(scale.ticks(value)) == float(value)
