"""Retries are recognised, counted with our own, and bounded by their share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.admission.retry_budget import FREE_RETRIES, REMEMBERED_SECONDS, RetryBudget
from tests.dataplane.plain_clock import PlainClock


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        ("1", "its client says that it is retry 1"),
        ("12", "its client says that it is retry 12"),
        ("9" * 400, "its client says that it is retry 999999999"),
        ("0", None),
        ("-1", None),
        ("x", None),
        (None, None),
    ],
)
def test_a_client_that_counts_its_retries_is_believed(
    count: str | None, expected: str | None
) -> None:
    assert RetryBudget(PlainClock()).find_retry("acme", count, b"body") == expected


def test_the_same_body_comes_again_only_where_its_first_try_was_not_answered() -> None:
    clock = PlainClock()
    budget = RetryBudget(clock)
    assert budget.find_retry("acme", None, b"body") is None
    budget.remember("acme", b"body")
    clock.now += 2

    again = "the same body of the same tenant was not answered 2.0 s ago"
    assert budget.find_retry("acme", None, b"body") == again
    assert budget.find_retry("acme", "0", b"body") == again
    assert budget.find_retry("other", None, b"body") is None
    assert budget.find_retry("acme", None, b"another") is None
    assert budget.find_retry("acme", None, None) is None

    budget.forget("acme", b"body")
    assert budget.find_retry("acme", None, b"body") is None
    budget.remember("acme", b"body")
    clock.now += REMEMBERED_SECONDS
    assert budget.find_retry("acme", None, b"body") is None


def test_memory_of_bodies_is_bounded_and_loses_the_oldest() -> None:
    budget = RetryBudget(PlainClock())
    for number in range(10_000):
        budget.remember("acme", number.to_bytes(4))

    assert budget.find_retry("acme", None, (9_999).to_bytes(4)) is not None
    assert budget.find_retry("acme", None, (0).to_bytes(4)) is None


@given(
    share=st.floats(0, 1),
    arrivals=st.lists(st.tuples(st.booleans(), st.floats(0, 1)), max_size=200),
)
def test_no_more_retries_are_let_in_than_their_share_and_a_few(
    share: float, arrivals: list[tuple[bool, float]]
) -> None:
    clock = PlainClock()
    budget = RetryBudget(clock)
    for is_retry, passed in arrivals:
        clock.now += passed
        if not is_retry:
            budget.note_first()
            continue
        standing = budget.stand("it says so", share)
        if not standing.is_over:
            budget.note_retry()
            after = budget.stand("it says so", share)
            assert after.num_retries <= max(FREE_RETRIES, share * after.num_first) + 1e-9
    # What is long ago weighs nothing, and a few are free again.
    clock.now += 1e4
    assert not budget.stand("it says so", 0.0).is_over
