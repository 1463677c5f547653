"""Queues of calls: in order inside one, side by side otherwise, and never in each other's way."""

import functools
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from controlplane.operator.calls import Calls
from tests.dataplane.plain_clock import PlainClock


@pytest.fixture
def clock() -> PlainClock:
    return PlainClock()


@pytest.fixture
def calls(clock: PlainClock) -> Iterator[Calls]:
    calls = Calls(clock)
    yield calls
    calls.close()


def settle_until(calls: Calls, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        calls.settle()
        calls.wait(0)
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_queue_that_hangs_delays_no_other_however_many_hang(
    calls: Calls, clock: PlainClock
) -> None:
    opened, entered = threading.Event(), itertools.count(1)
    num_entered = 0
    told: list[str | None] = []

    def hang() -> None:
        nonlocal num_entered
        num_entered = next(entered)
        opened.wait(60)

    for number in range(80):
        calls.put(f"hung-{number}", f"hang {number}", hang, told.append)
    settle_until(calls, lambda: num_entered == 32)
    clock.now += 3  # those are late now, and others may run beside them
    settle_until(calls, lambda: num_entered == 64)
    clock.now += 3
    settle_until(calls, lambda: num_entered == 80)
    calls.put("well", "do it", lambda: None, told.append)
    settle_until(calls, lambda: told == [None])
    assert calls.reasons()["hung-0"] == "hang 0: no answer for 6 s"
    opened.set()
    settle_until(calls, lambda: len(told) == 81)
    assert calls.reasons() == {}


def test_calls_of_one_queue_run_in_order_and_one_at_a_time(calls: Calls) -> None:
    ran: list[int] = []
    done: list[str | None] = []
    for number in range(50):
        assert calls.put(
            "chat", f"call {number}", functools.partial(ran.append, number), done.append
        )
    assert not calls.put("chat", "call 49", lambda: ran.append(99), done.append)
    settle_until(calls, lambda: len(done) == 50)
    assert ran == list(range(50))


def test_what_fails_is_refused_for_a_while_that_grows_and_says_why(
    calls: Calls, clock: PlainClock
) -> None:
    def fail() -> None:
        raise OSError("no room")

    errors: list[str | None] = []
    for _ in range(3):
        assert calls.put("chat", "end of chat-1", fail, errors.append)
        settle_until(calls, lambda: not calls.is_under_way("end of chat-1"))
        clock.now += calls.retries()["chat"]
    clock.now -= 1
    assert not calls.put("chat", "end of chat-1", fail, errors.append)
    (why,) = calls.reasons().values()
    assert why == "end of chat-1: no room, 3 times in a row; tried again in 1 s"
    clock.now += 1
    calls.put("chat", "end of chat-1", lambda: None, errors.append)
    settle_until(calls, lambda: errors[-1] is None)
    assert calls.reasons() == {}


def test_what_could_not_be_told_is_told_again(calls: Calls) -> None:
    told: list[str | None] = []

    def tell(error: str | None) -> None:
        told.append(error)
        if len(told) == 1:
            raise RuntimeError("the database is away")

    calls.put("chat", "launch", lambda: None, tell, is_awaited=True)
    calls.wait(10)
    with pytest.raises(RuntimeError, match="the database is away"):
        calls.settle()
    calls.settle()
    calls.settle()
    assert told == [None, None]
