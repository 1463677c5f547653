"""The rate of a queue is that of the time in which somebody waited."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.queueing.drain_rate import DrainRate, DrainReading
from tests.dataplane.plain_clock import PlainClock


def reading(drain: DrainRate) -> DrainReading:
    found = drain.read()
    assert found is not None
    return found


def test_a_steady_queue_drains_at_the_rate_at_which_its_requests_begin() -> None:
    clock = PlainClock()
    drain = DrainRate(clock)
    drain.note_waiting(True)
    for _ in range(200):
        clock.now += 0.25
        drain.note_begun(num_tokens=100)

    assert reading(drain).requests_per_second == pytest.approx(4, rel=0.02)
    assert reading(drain).tokens_per_second == pytest.approx(400, rel=0.02)
    assert reading(drain).seconds_for(8) == pytest.approx(2, rel=0.02)


def test_time_in_which_nobody_waits_says_nothing() -> None:
    clock = PlainClock()
    drain = DrainRate(clock)
    for _ in range(50):
        drain.note_waiting(True)
        clock.now += 0.5
        drain.note_begun(num_tokens=1)
        drain.note_waiting(False)
        clock.now += 100

    assert reading(drain).requests_per_second == pytest.approx(2, rel=0.05)
    assert reading(drain).age_seconds == 100
    assert not reading(drain).is_current


def test_a_queue_that_stands_still_gets_slower_by_itself() -> None:
    clock = PlainClock()
    drain = DrainRate(clock)
    drain.note_waiting(True)
    for _ in range(100):
        clock.now += 0.1
        drain.note_begun(num_tokens=1)
    before = reading(drain).requests_per_second
    clock.now += 30

    assert reading(drain).requests_per_second < before / 5
    assert reading(drain).is_current


def test_a_few_that_begin_at_one_moment_are_no_rate() -> None:
    clock = PlainClock()
    drain = DrainRate(clock)
    assert drain.read() is None
    drain.note_waiting(True)
    for _ in range(5):
        drain.note_begun(num_tokens=1)
    assert drain.read() is None
    clock.now += 1
    assert reading(drain).requests_per_second == pytest.approx(5, rel=0.1)


@given(st.lists(st.tuples(st.sampled_from(["wait", "rest", "begin"]), st.floats(0, 1e5))))
def test_no_rate_is_ever_below_nothing(steps: list[tuple[str, float]]) -> None:
    clock = PlainClock()
    drain = DrainRate(clock)
    for what, passed in steps:
        clock.now += passed
        if what == "begin":
            drain.note_begun(num_tokens=3)
        else:
            drain.note_waiting(what == "wait")
        found = drain.read()
        if found is not None:
            assert found.requests_per_second >= 0
            assert found.age_seconds >= 0
            assert found.seconds_for(0) == 0
            assert found.seconds_for(1) > 0


def test_those_behind_are_as_fast_as_all_until_they_wait_in_vain() -> None:
    clock = PlainClock()
    of_all = DrainReading(requests_per_second=5, tokens_per_second=1, age_seconds=0)
    behind = DrainRate(clock)
    assert behind.read_behind(of_all).requests_per_second == pytest.approx(5)
    behind.note_waiting(True)
    rates = []
    for _ in range(4):
        clock.now += 10
        rates.append(behind.read_behind(of_all).requests_per_second)
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == pytest.approx(3 / 10, rel=0.3)
    for _ in range(100):
        clock.now += 0.5
        behind.note_begun(num_tokens=1)
    assert behind.read_behind(of_all).requests_per_second == pytest.approx(2, rel=0.1)
