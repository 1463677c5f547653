import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dataplane.routing.first_token_time import (
    MIN_FIRST_TOKENS,
    FirstTokenTime,
    longest_wait,
)


def learned(num_first_tokens: int, spread: float = 0.0) -> FirstTokenTime:
    """Of a machine that takes 0.2 s, and 2 ms for each token, give or take."""
    draw, times = random.Random(1), FirstTokenTime()
    for _ in range(num_first_tokens):
        num_tokens = draw.randrange(20, 2000)
        times.note(num_tokens, 0.2 + 0.002 * num_tokens + draw.uniform(-spread, spread))
    return times


def test_it_is_learned_how_long_a_prompt_takes_by_its_length() -> None:
    times = learned(400)
    for num_tokens, seconds in ((20, 0.24), (500, 1.2), (2000, 4.2)):
        reading = times.read(num_tokens)
        assert reading is not None
        assert reading.of_this == pytest.approx(seconds, abs=0.02)
        assert reading.usual == pytest.approx(2.2, abs=0.5)


def test_nearly_all_come_within_what_is_told() -> None:
    times, draw = learned(400, spread=0.3), random.Random(2)
    reading = times.read(500)
    assert reading is not None
    seen = [1.2 + draw.uniform(-0.3, 0.3) for _ in range(1000)]
    assert sum(each <= reading.of_this for each in seen) > 940
    assert reading.of_this < 1.8


def test_of_a_machine_that_gets_slower_the_newest_is_believed() -> None:
    times = learned(400)
    for num_tokens in range(100, 2000, 10):
        times.note(num_tokens, 3 * (0.2 + 0.002 * num_tokens))
    reading = times.read(1000)
    assert reading is not None
    assert reading.of_this > 0.9 * 3 * 2.2


def of_this(times: FirstTokenTime, num_prompt_tokens: int) -> float:
    reading = times.read(num_prompt_tokens)
    assert reading is not None
    return reading.of_this


def test_one_that_hung_for_a_minute_hardly_changes_what_all_the_others_take() -> None:
    times = FirstTokenTime()
    for _ in range(200):
        times.note(100, 0.2)
    times.note(100, 60.0)
    assert of_this(times, 100) < 0.3


def test_one_that_hung_among_the_very_first_counts_no_more_than_later() -> None:
    draw = random.Random(3)
    for place in range(MIN_FIRST_TOKENS):
        times = FirstTokenTime()
        for number in range(MIN_FIRST_TOKENS):
            num_tokens = draw.randrange(20, 2000)
            times.note(num_tokens, 60.0 if number == place else 0.2 + 0.0001 * num_tokens)
        assert of_this(times, 1000) < 1.0


def test_of_a_machine_that_gets_thirty_times_slower_some_forty_tell() -> None:
    times = FirstTokenTime()
    for _ in range(200):
        times.note(100, 0.2)
    for _ in range(40):
        times.note(100, 6.0)
    assert of_this(times, 100) > 0.9 * 6


def test_of_prompts_far_longer_than_any_before_a_few_dozen_tell() -> None:
    times = FirstTokenTime()
    for number in range(400):
        num_tokens = 8000 if number >= 200 and number % 5 == 0 else 50
        times.note(num_tokens, 0.1 + 0.001 * num_tokens)
    assert of_this(times, 8000) > 0.9 * 8.1
    assert of_this(times, 50) < 4


def test_nobody_can_tell_from_a_few() -> None:
    assert learned(MIN_FIRST_TOKENS - 1).read(100) is None
    assert learned(MIN_FIRST_TOKENS).read(100) is not None


@given(
    st.lists(
        st.tuples(st.integers(1, 100_000), st.floats(0, 1e4)),
        min_size=MIN_FIRST_TOKENS,
        max_size=50,
    )
)
@settings(deadline=None)
def test_a_longer_prompt_never_takes_less_and_none_less_than_no_time(
    seen: list[tuple[int, float]],
) -> None:
    times = FirstTokenTime()
    for num_tokens, seconds in seen:
        times.note(num_tokens, seconds)
    told = [reading.of_this for n in (1, 100, 10_000) if (reading := times.read(n)) is not None]
    assert len(told) == 3
    assert told == sorted(told)
    assert told[0] >= 0


def test_what_can_only_just_break_its_promise_may_still_take_a_slot_that_is_free() -> None:
    assert longest_wait(4.0, 1.5) == 2.5
    assert longest_wait(4.0, 9.0) == pytest.approx(0.2)
