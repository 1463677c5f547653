"""Quantities are exact, and written back in one way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.specs.quantity import (
    format_duration,
    format_rate,
    format_share,
    format_size,
    parse_duration,
    parse_rate,
    parse_share,
    parse_target,
)
from dataplane.byte_size import parse_size


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("300ms", 0.3, "300ms"),
        ("0.3s", 0.3, "300ms"),
        ("10s", 10.0, "10s"),
        ("90s", 90.0, "90s"),
        ("60s", 60.0, "1m"),
        ("720h", 2_592_000.0, "30d"),
        ("30d", 2_592_000.0, "30d"),
        ("250us", 0.00025, "250us"),
        ("0.5us", 0.0000005, "0.5us"),
    ],
)
def test_durations_have_one_canonical_spelling(text: str, seconds: float, canonical: str) -> None:
    assert parse_duration(text) == seconds
    assert format_duration(seconds) == canonical


@pytest.mark.parametrize(
    "text",
    [300, 0.3, "300", "ms", "-1s", "1e3s", "1 s", "1S", "1w", "٣s", None, True, "9" * 99 + "s"],
)
def test_a_duration_without_a_unit_says_how_to_write_it(text: object) -> None:
    with pytest.raises(ValueError, match="such as 300ms or 30d"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0.000ms", "3661d", "999999999999d"])
def test_durations_are_longer_than_nothing_and_shorter_than_ten_years(text: str) -> None:
    with pytest.raises(ValueError, match="longer than"):
        parse_duration(text)


@pytest.mark.parametrize(("text", "share"), [("99%", 0.99), ("99.9%", 0.999), ("5%", 0.05)])
def test_percentages_are_exact(text: str, share: float) -> None:
    assert parse_share(text) == share
    assert format_share(share) == text


@pytest.mark.parametrize("text", [0.99, 99, "0.99", "101%", "-1%", "99 %", "%"])
def test_a_share_must_be_a_percentage(text: object) -> None:
    with pytest.raises(ValueError, match="%"):
        parse_share(text)


@pytest.mark.parametrize("text", ["100%", "0%"])
def test_a_target_leaves_an_error_budget_and_promises_something(text: str) -> None:
    assert parse_share(text) in (0, 1)
    with pytest.raises(ValueError, match="target"):
        parse_target(text)


@pytest.mark.parametrize(
    ("text", "per_second", "canonical"),
    [
        ("1/s", 1.0, "1/s"),
        ("60/m", 1.0, "1/s"),
        ("10/m", 10 / 60, "10/m"),
        ("1/d", 1 / 86400, "1/d"),
    ],
)
def test_rates_are_written_in_the_unit_that_needs_no_rounding(
    text: str, per_second: float, canonical: str
) -> None:
    assert parse_rate(text) == per_second
    assert format_rate(per_second) == canonical


@given(st.integers(1, 10**6), st.sampled_from(["us", "ms", "s", "m"]))
def test_every_duration_is_read_back_as_it_was_written(number: int, unit: str) -> None:
    seconds = parse_duration(f"{number}{unit}")

    assert parse_duration(format_duration(seconds)) == seconds


@given(st.decimals(min_value=0, max_value=100, places=5))
def test_every_share_is_read_back_as_it_was_written(percent: object) -> None:
    share = parse_share(f"{percent}%")

    assert parse_share(format_share(share)) == share


@given(st.integers(0, 10**6), st.sampled_from(["s", "m", "h", "d"]))
def test_every_rate_is_read_back_as_it_was_written(number: int, unit: str) -> None:
    rate = parse_rate(f"{number}/{unit}")

    assert parse_rate(format_rate(rate)) == rate


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("1024B", "1KiB"), ("1.5KiB", "1536B"), ("2048MiB", "2GiB"), ("7B", "7B")],
)
def test_sizes_have_one_canonical_spelling(text: str, canonical: str) -> None:
    assert format_size(parse_size(text)) == canonical
    assert parse_size(canonical) == parse_size(text)
