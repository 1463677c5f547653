from functools import partial

import pytest

from dataplane.lifecycle import Disposition
from dataplane.policy import ClassPolicy
from dataplane.queueing.queue import Departure, DeploymentQueue
from dataplane.simulation.queue_expiry import QueueExpiry
from dataplane.simulation.timeline import Timeline


class Watched:
    """A queue without a replica, looked at every half second."""

    def __init__(self, unserved_seconds: float = 100.0, every_seconds: float = 0.5) -> None:
        self.timeline = Timeline()
        self.queue = DeploymentQueue(clock=self.timeline, unserved_seconds=unserved_seconds)
        self.expiry = QueueExpiry(self.queue, self.timeline, every_seconds)
        self.left: list[tuple[float, Disposition]] = []

    def enter(self, deadline: float | None = None) -> None:
        def leave(outcome: object) -> None:
            assert isinstance(outcome, Departure)
            self.left.append((self.timeline.now, outcome.disposition))

        request_class = ClassPolicy(name="all", deadline_seconds=deadline)
        self.queue.enter(request_class).on_leaving(leave)
        self.expiry.watch()

    def must_have_ended_at(self, at: float) -> None:
        assert [time for time, _ in self.left] == [at]


def test_a_deadline_is_noticed_at_the_next_look() -> None:
    watched = Watched()
    watched.enter(deadline=1.2)
    watched.timeline.run(until=1.4)
    assert not watched.left
    watched.timeline.run(until=10.0)
    assert watched.left == [(1.5, Disposition.DEADLINE)]


def test_a_shorter_deadline_that_comes_later_is_noticed_first() -> None:
    watched = Watched()
    watched.enter(deadline=3.0)
    watched.enter(deadline=0.9)
    watched.timeline.run(until=10.0)
    assert [at for at, _ in watched.left] == [1.0, 3.0]


def test_whoever_waits_too_long_for_any_replica_is_sent_away() -> None:
    watched = Watched(unserved_seconds=2.0)
    watched.enter()
    watched.timeline.run(until=10.0)
    assert watched.left == [(2.0, Disposition.ERROR)]


@pytest.mark.parametrize("every_seconds", [0.001, 0.05, 0.5])
def test_one_look_at_the_moment_a_wait_is_due_is_enough_at_whatever_time_it_began(
    every_seconds: float,
) -> None:
    for milliseconds in range(0, 3000, 50):
        for unserved, deadline in ((0.2, None), (0.7, None), (100.0, 0.2), (100.0, 0.7)):
            watched = Watched(unserved, every_seconds)
            at = milliseconds / 1000
            watched.timeline.at(at, partial(watched.enter, deadline))
            watched.timeline.run(until=at)
            looked_at = watched.timeline.next_at
            assert looked_at is not None
            # Behind that look, and before any other of the same moment.
            watched.timeline.at(looked_at, partial(watched.must_have_ended_at, looked_at))
            watched.timeline.run()


def test_a_queue_in_which_nobody_waits_is_not_looked_at() -> None:
    watched = Watched()
    watched.expiry.watch()
    assert watched.timeline.next_at is None
