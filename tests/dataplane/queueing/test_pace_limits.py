import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.queueing.pace_limits import MIN_ANSWERS, PaceLimits

PACE = 0.5


def tpot(num_held: float, fixed: float, of_each: float) -> float:
    """A step costs something whoever is in it, and something for each that is."""
    return fixed + of_each * num_held


def settle(fixed: float, of_each: float, first: int, most: int = 64, late_by: int = 40) -> int:
    """The limit of a replica that always has as many as it may, and whose answers come late."""
    pace, draw = PaceLimits(PACE), random.Random(1)
    ended: deque[tuple[float, int]] = deque()
    num_held = first
    for _ in range(3000):
        ended.append((tpot(num_held, fixed, of_each) * draw.uniform(0.9, 1.1), num_held))
        if len(ended) > late_by:
            seen, beside = ended.popleft()
            pace.note_answer("r", seen, 30, beside)
        limit = pace.limit("r")
        num_held = first if limit is None else min(most, limit)
    return num_held


@pytest.mark.parametrize(("fixed", "of_each"), [(0.05, 0.02), (0.2, 0.01), (0.0, 0.03)])
@pytest.mark.parametrize("first", [1, 64])
def test_the_limit_closes_in_on_the_number_whose_slower_answers_just_keep_the_pace(
    fixed: float, of_each: float, first: int
) -> None:
    num_held = settle(fixed, of_each, first)
    assert tpot(num_held, fixed, of_each) * 1.1 <= PACE * 1.03
    assert tpot(num_held + 3, fixed, of_each) * 1.1 > PACE * 0.97


def test_a_replica_that_cannot_keep_it_at_all_is_given_one_at_a_time() -> None:
    assert settle(fixed=2.0, of_each=0.1, first=8) == 1


def test_each_replica_has_a_limit_of_its_own_and_none_before_it_has_answered() -> None:
    pace = PaceLimits(PACE)
    for _ in range(MIN_ANSWERS - 1):
        pace.note_answer("slow", 0.2, 30, 1)
    assert pace.limit("slow") is None
    for _ in range(40):
        pace.note_answer("slow", 0.2, 30, 1)
        pace.note_answer("fast", 0.099, 30, 1)
    assert (pace.limit("slow"), pace.limit("fast")) == (2, 5)
    pace.keep_only({"fast"})
    assert (pace.limit("slow"), pace.limit("fast")) == (None, 5)


def test_a_short_answer_says_less_than_a_long_one() -> None:
    limits = []
    for num_tokens in (2, 60):
        pace = PaceLimits(PACE)
        for _ in range(60):
            pace.note_answer("r", 0.1, 30, 1)
        pace.note_answer("r", 2.0, num_tokens, 1)
        limits.append(pace.limit("r") or 0)
    assert limits[0] > limits[1]


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.integers(2, 5000), st.floats(0, 200)),
        min_size=MIN_ANSWERS,
        max_size=60,
    )
)
@settings(deadline=None)
def test_whatever_is_answered_somebody_may_run(answers: list[tuple[float, int, float]]) -> None:
    pace = PaceLimits(PACE)
    for seen, num_tokens, num_held in answers:
        pace.note_answer("r", seen, num_tokens, num_held)
    assert (pace.limit("r") or 1) >= 1
