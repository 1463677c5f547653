"""Numbers carry units, and what is missing is no number."""

import pytest

from controlplane.api.quantities import age
from controlplane.console.formatting import clock_time, duration, rate, share, short_id
from controlplane.console.templating import environment


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"), (0.00004, "0.04 ms"), (0.0006, "0.6 ms"), (0.0094, "9.4 ms"),
        (0.043, "43 ms"), (0.99949, "999 ms"), (1.0, "1.00 s"), (1.944, "1.94 s"),
        (59.96, "60.0 s"), (100.0, "1 min 40 s"), (3661.0, "61 min 01 s"),
    ],
)  # fmt: skip
def test_a_duration_has_the_digits_that_matter(seconds: float, text: str) -> None:
    assert str(duration(seconds)) == text


def test_what_is_unknown_stays_unknown() -> None:
    assert (duration(None), rate(None), share(None)) == (None, None, None)


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "100 %"), (0.9999, "99.99 %"), (0.996, "99.60 %"), (0.82, "82 %"),
                        (0.0313, "3.1 %"), (0.0, "0 %")],
)  # fmt: skip
def test_only_a_whole_share_reads_100_percent(value: float, text: str) -> None:
    assert str(share(value)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2 min"), (3599, "59 min"), (3600, "1 h"),
     (90000, "25 h"), (200000, "2 d")],
)  # fmt: skip
def test_an_age_is_rough(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_another_day_shows_its_date() -> None:
    day = 86400 * 10**9
    assert clock_time(5 * 10**9, 6 * 10**9) == "00:00:05"
    assert clock_time(5 * 10**9, day) == "1970-01-01 00:00:05"


def test_a_short_id_is_never_longer() -> None:
    assert short_id("x" * 12) == "x" * 12
    assert short_id("x" * 40) == "x" * 10


def test_on_a_page_an_age_stays_on_one_line_and_unknown_stays_unknown() -> None:
    template = environment().from_string("for {{ 10800|age }}.")
    assert template.render() == "for 3\u00a0h."
    assert environment().filters["age"](None) is None
