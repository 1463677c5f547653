"""Replicas of one revision take the place of another's, and enough of them serve all the while."""

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.operator.desired import DesiredReplicas
from controlplane.operator.plan import ActualReplica, Plan, plan_replicas
from tests.controlplane.operator.test_plan import CHAT, replica, stops


@dataclass
class World:
    """Replicas that start, and drain, in their own time."""

    desired: DesiredReplicas
    random: Random
    alive: list[ActualReplica] = field(default_factory=list)
    num_started: int = 0
    most_alive: int = 0
    least_ready: int = 10**6

    @property
    def num_ready(self) -> int:
        return sum(each.is_ready and not each.is_draining for each in self.alive)

    def start(self, *, is_ready: bool = False) -> None:
        self.num_started += 1
        replica_id = f"chat-{self.num_started}"
        self.alive.append(replica(replica_id, digest=self.desired.digest, is_ready=is_ready))

    def act(self, plan: Plan) -> None:
        """What the operator does in one pass."""
        stopped = {stop.replica_id for stop in plan.stops}
        self.alive = [
            replace(each, is_draining=True) if each.replica_id in stopped else each
            for each in self.alive
        ]
        for _ in plan.starts:
            self.start()
        self.most_alive = max(self.most_alive, len(self.alive))
        self.least_ready = min(self.least_ready, self.num_ready)

    def go_on(self) -> None:
        """Some get ready, some have drained."""
        self.alive = [
            replace(each, is_ready=each.is_ready or self.random.random() < 0.4)
            for each in self.alive
            if not each.is_draining or self.random.random() < 0.6
        ]

    def settle(self) -> int:
        """Passes until nothing is left to do."""
        for number in range(10_000):
            plan = plan_replicas([self.desired], self.alive, {})
            if plan.settled:
                return number
            self.act(plan)
            self.go_on()
        raise AssertionError(f"it never comes to an end: {plan}, {self.alive}")


@settings(max_examples=300)
@given(
    num=st.integers(0, 8),
    num_before=st.integers(0, 8),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    seed=st.integers(0, 10**6),
)
def test_never_more_alive_nor_fewer_ready_than_is_allowed(
    num: int, num_before: int, surge: int, unavailable: int, seed: int
) -> None:
    if not surge and not unavailable:
        unavailable = 1
    before = replace(CHAT, digest="old", num_replicas=num_before)
    world = World(before, Random(seed))
    for _ in range(num_before):
        world.start(is_ready=True)
    world.desired = replace(CHAT, num_replicas=num, max_surge=surge, max_unavailable=unavailable)
    world.settle()
    assert {each.digest for each in world.alive} <= {CHAT.digest}
    assert len(world.alive) == num
    assert world.most_alive <= max(num + surge, num_before)
    if world.least_ready < 10**6:
        assert world.least_ready >= min(num_before, num - unavailable)


@pytest.mark.parametrize(
    ("surge", "unavailable", "stopped", "num_started"),
    [
        (0, 1, ["chat-1"], 0),
        (0, 2, ["chat-1", "chat-2"], 0),
        (0, 4, ["chat-1", "chat-2", "chat-3", "chat-4"], 0),
        (1, 0, [], 1),
        (2, 1, ["chat-1"], 2),
    ],
)
def test_the_first_pass_ends_and_starts_as_many_as_it_may(
    surge: int, unavailable: int, stopped: list[str], num_started: int
) -> None:
    desired = replace(CHAT, num_replicas=4, max_surge=surge, max_unavailable=unavailable)
    actual = [replica(f"chat-{number}", digest="old") for number in range(1, 5)]
    plan = plan_replicas([desired], actual, {})
    assert stops(plan) == stopped
    assert len(plan.starts) == num_started


def test_what_differs_and_serves_nobody_goes_at_once() -> None:
    desired = replace(CHAT, num_replicas=3)
    actual = [replica(f"chat-{n}", digest="old", is_ready=n == 1) for n in (1, 2, 3)]
    assert stops(plan_replicas([desired], actual, {})) == ["chat-2", "chat-3"]


def test_a_revision_that_never_gets_ready_takes_no_more_than_may_be_missing() -> None:
    """It crashes again and again: those of before go on."""
    world = World(replace(CHAT, digest="old", num_replicas=4), Random(1))
    for _ in range(4):
        world.start(is_ready=True)
    world.desired = replace(CHAT, num_replicas=4)
    for _ in range(50):
        world.act(plan_replicas([world.desired], world.alive, {}))
        world.alive = [
            each for each in world.alive if not each.is_draining and each.digest == "old"
        ]
    assert world.num_ready == 3
