import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.write_patience import WritePatience


def look_window_by_window(patience: WritePatience, began: int, last_read_at: int) -> float:
    """As a gateway does, at a client that takes a byte a second until `last_read_at`."""

    def num_unsent(at: float) -> int:
        return 10_000 - int(min(at, max(last_read_at, began)) - began)

    now = float(began)
    while True:
        before = num_unsent(now)
        now += patience.window_seconds
        if patience.is_gone(before, num_unsent(now)):
            return now


@given(
    began=st.integers(0, 500), last_read_at=st.integers(0, 1000), window_seconds=st.integers(1, 90)
)
def test_when_a_client_counts_as_gone_is_told_beforehand_as_windows_would_find_it(
    began: int, last_read_at: int, window_seconds: int
) -> None:
    patience = WritePatience(window_seconds)
    expected = look_window_by_window(patience, began, last_read_at)
    assert patience.gone_at(began, last_read_at) == expected


@pytest.mark.parametrize(
    ("last_read_at", "gone_at"),
    [(0, 60), (5, 60), (6, 120), (60, 120), (65, 120), (66, 180)],
)
def test_a_byte_in_a_window_buys_another_one(last_read_at: int, gone_at: int) -> None:
    assert WritePatience(60).gone_at(5, last_read_at) == 5 + gone_at


def test_the_reason_names_the_window() -> None:
    assert WritePatience(2.5).why_gone == "the client read nothing for 2.5 s"
