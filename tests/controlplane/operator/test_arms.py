"""Two arms of one deployment: the room is shared, and going back never leaves less than before."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.operator.desired import DesiredReplicas
from controlplane.operator.plan import ActualReplica, Plan, plan_replicas
from controlplane.rollouts.arm_sizes import arm_sizes
from tests.controlplane.operator.test_plan import CHAT, replica, stops

ROLLOUT = 7


def arms(num: int, share: float, surge: int, unavailable: int) -> list[DesiredReplicas]:
    sizes = arm_sizes(num, share, surge, unavailable)
    common = replace(CHAT, max_surge=surge, max_unavailable=unavailable, max_alive=num + surge)
    return [
        replace(common, num_replicas=sizes.stable, beside_rollout=ROLLOUT),
        replace(common, num_replicas=sizes.candidate, rollout=ROLLOUT, digest="new"),
    ]


class World:
    """Replicas of both arms that start, fail and drain in their own time."""

    def __init__(self, num: int, seed: int) -> None:
        self.random = Random(seed)
        self.num_started = num
        self.alive = [replica(f"chat-{n}") for n in range(num)]
        self.most_alive = num

    def ready(self, digest: str) -> int:
        return sum(
            each.is_ready and not each.is_draining and each.digest == digest for each in self.alive
        )

    def act(self, plan: Plan, desired: list[DesiredReplicas]) -> None:
        stopped = set(stops(plan))
        self.alive = [
            replace(each, is_draining=each.is_draining or each.replica_id in stopped)
            for each in self.alive
        ]
        by_lane = {each.lane: each for each in desired}
        for start in plan.starts:
            self.num_started += 1
            of = by_lane[start.lane]
            started = replica(f"chat-{self.num_started}", digest=of.digest, is_ready=False)
            self.alive.append(replace(started, rollout=of.rollout))
        self.most_alive = max(self.most_alive, len(self.alive))

    def go_on(self) -> None:
        self.alive = [
            replace(each, is_ready=each.is_ready or self.random.random() < 0.4)
            for each in self.alive
            if not (each.is_draining and self.random.random() < 0.6)
            and not (each.digest == "new" and self.random.random() < 0.05)
        ]

    def bring_about(self, desired: list[DesiredReplicas], least_ready: dict[str, int]) -> None:
        """Until nothing is left to do."""
        for _ in range(10_000):
            plan = plan_replicas(desired, self.alive, {})
            if len(plan.settled) == len(desired) and not plan.stops:
                return
            self.act(plan, desired)
            for digest, least in least_ready.items():
                assert self.ready(digest) >= least
            self.go_on()
        raise AssertionError(f"it never comes to an end: {plan}")


@settings(max_examples=200)
@given(
    num=st.integers(1, 8),
    shares=st.lists(st.sampled_from([0.05, 0.25, 0.5, 1.0]), min_size=1, max_size=3),
    surge=st.integers(0, 2),
    unavailable=st.integers(0, 2),
    is_promoted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_steps_and_their_end_keep_what_may_not_be_missing(
    num: int, shares: list[float], surge: int, unavailable: int, is_promoted: bool, seed: int
) -> None:
    if not surge and not unavailable:
        unavailable = 1
    world = World(num, seed)
    for share in sorted(shares):
        world.bring_about(arms(num, share, surge, unavailable), {CHAT.digest: num - unavailable})
    end = replace(CHAT, num_replicas=num, max_surge=surge, max_unavailable=unavailable)
    if is_promoted:
        end = replace(end, digest="new")
        world.bring_about([end], {})
    else:
        world.bring_about([end], {CHAT.digest: num - unavailable})
    assert {each.digest for each in world.alive} == {end.digest}
    assert len(world.alive) == num
    assert world.most_alive <= num + surge


def candidate(replica_id: str, rollout: int = ROLLOUT) -> ActualReplica:
    return replace(replica(replica_id, digest="new"), rollout=rollout)


def test_a_candidate_starts_only_when_the_replica_that_made_room_is_gone() -> None:
    desired = arms(2, 0.05, 0, 1)
    both = [replica("chat-1"), replica("chat-2")]
    first = plan_replicas(desired, both, {})
    assert (stops(first), first.starts) == (["chat-2"], ())
    draining = [both[0], replace(both[1], is_draining=True)]
    assert plan_replicas(desired, draining, {}).starts == ()
    assert [start.lane for start in plan_replicas(desired, both[:1], {}).starts] == [
        "chat (rollout 7)"
    ]


def test_with_a_surge_it_starts_at_once_and_nothing_stops() -> None:
    plan = plan_replicas(arms(2, 0.05, 1, 0), [replica("chat-1"), replica("chat-2")], {})
    assert stops(plan) == []
    assert len(plan.starts) == 1
    assert "rollout 7 tries 1 replica" in plan.starts[0].reason


def test_what_came_back_goes_at_once_whatever_is_missing() -> None:
    desired = replace(CHAT, num_replicas=3)
    plan = plan_replicas([desired], [replica("chat-1"), candidate("chat-2")], {})
    assert stops(plan) == ["chat-2"]
    assert plan.stops[0].reason == "rollout 7 ended without it"
    assert len(plan.starts) == 1


def test_what_was_promoted_is_kept() -> None:
    desired = replace(CHAT, num_replicas=2, digest="new")
    plan = plan_replicas([desired], [replica("chat-1"), candidate("chat-2")], {})
    assert stops(plan) == ["chat-1"]


def test_a_candidate_of_an_earlier_rollout_is_not_that_of_this_one() -> None:
    actual = [replica("chat-1"), replica("chat-2"), candidate("chat-3", rollout=6)]
    plan = plan_replicas(arms(2, 0.05, 1, 0), actual, {})
    assert stops(plan) == ["chat-3"]
    assert plan.starts == ()


def test_a_candidate_that_fails_is_held_by_itself() -> None:
    plan = plan_replicas(
        arms(2, 0.05, 1, 0),
        [replica("chat-1"), replica("chat-2")],
        {"chat (rollout 7)": "failed 2 times"},
    )
    assert plan.starts == ()
    assert plan.holds == {"chat (rollout 7)": "failed 2 times"}
    assert plan.settled == ("chat",)
