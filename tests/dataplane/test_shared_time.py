import random

import pytest

from dataplane.shared_time import SharedTime, Stay


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_of_a_replica_is_shared_by_those_that_are_on_it() -> None:
    clock = Clock()
    shared = SharedTime(clock)
    first = shared.enter("a", 1)
    clock.now = 1.0
    second = shared.enter("a", 3)
    elsewhere = shared.enter("b", 1)
    clock.now = 5.0
    assert second.seconds == 3.0
    first.release()
    first.release()
    clock.now = 7.0
    second.release()
    clock.now = 100.0
    assert (first.seconds, second.seconds) == (2.0, 5.0)
    assert elsewhere.seconds == 99.0


def test_what_all_had_is_the_time_in_which_anybody_was_there_and_nothing_stays() -> None:
    clock, stream = Clock(), random.Random(9)
    shared = SharedTime(clock)
    held: list[Stay] = []
    total = busy = 0.0
    for _ in range(100_000):
        seconds = stream.expovariate(10)
        busy += seconds * len({stay.replica_id for stay in held})
        clock.now += seconds
        if stream.random() < 0.5:
            held.append(shared.enter(stream.choice("abc"), stream.randrange(1, 5)))
        elif held:
            stay = held.pop(stream.randrange(len(held)))
            stay.release()
            total += stay.seconds
    total += sum(stay.seconds for stay in held)
    assert total == pytest.approx(busy, rel=1e-6)
    for stay in held:
        stay.release()
    shared.check_integrity()
    assert shared._replicas == {}
