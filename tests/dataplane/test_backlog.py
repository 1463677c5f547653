"""How much may wait for a client, and what follows: paused in between two marks, or ended."""

import pytest

from dataplane.backlog import TOO_SLOW, Backlog
from dataplane.slow_client_terms import SlowClientAction, SlowClientTerms


def make(then: SlowClientAction = SlowClientAction.PAUSE) -> Backlog:
    return Backlog(SlowClientTerms(max_waiting_bytes=100, then=then, pause_seconds=10))


def test_it_is_over_past_the_buffer_and_until_half_of_it_is_left() -> None:
    backlog = make()
    seen = []
    for put, taken in ((100, 0), (1, 0), (0, 1), (0, 49), (0, 1), (50, 0), (1, 0)):
        backlog.put(put)
        backlog.take(taken)
        seen.append((backlog.num_bytes, backlog.is_over))
    assert seen == [
        *((100, False), (101, True), (100, True), (51, True)),
        *((50, False), (100, False), (101, True)),
    ]


def test_all_pauses_of_a_request_are_bounded_together() -> None:
    backlog = make()
    assert backlog.pause(now=1.0) == 10
    was_paused = backlog.is_paused
    backlog.resume(now=7.0)
    backlog.resume(now=70.0)  # of no effect: it is not paused
    assert (was_paused, backlog.is_paused) == (True, False)
    assert backlog.pause(now=20.0) == 4
    backlog.resume(now=24.0)
    assert backlog.pause(now=30.0) == 0


def test_where_it_is_to_be_ended_nothing_is_paused() -> None:
    backlog = make(SlowClientAction.END)
    backlog.put(101)
    assert backlog.pause(now=1.0) == 0
    assert not backlog.is_paused
    assert backlog.why_ended == f"{TOO_SLOW}: 101 bytes waited"


@pytest.mark.parametrize("then", list(SlowClientAction))
def test_the_reason_of_an_end_says_that_the_client_was_too_slow(then: SlowClientAction) -> None:
    assert make(then).why_ended.startswith(TOO_SLOW)


def test_where_its_time_is_spent_it_is_not_paused_again() -> None:
    backlog = make()
    backlog.pause(now=0.0)
    backlog.resume(now=10.1)
    assert (backlog.pause(now=20.0), backlog.is_paused) == (0, False)
