"""The plan as a difference by key."""

from dataclasses import replace

import msgspec

from controlplane.operator.desired import DesiredReplicas, spec_digest
from controlplane.operator.plan import ActualReplica, Plan, plan_replicas
from dataplane.engine import ReplicaSpec

TEMPLATE = ReplicaSpec(
    replica_id="",
    deployment="chat",
    engine="tiny",
    model_name="m",
    model_revision="m@1",
    engine_config_revision="e@1",
    artifact="/weights",
    settings={"a": 1, "b": 2},
)
CHAT = DesiredReplicas(
    deployment="chat",
    generation=3,
    launcher="local",
    num_replicas=1,
    template=TEMPLATE,
    digest=spec_digest(TEMPLATE),
)


def replica(
    replica_id: str,
    *,
    digest: str = CHAT.digest,
    is_ready: bool = True,
    is_draining: bool = False,
    launcher: str = "local",
    deployment: str = "chat",
) -> ActualReplica:
    return ActualReplica(
        replica_id=replica_id,
        deployment=deployment,
        launcher=launcher,
        digest=digest,
        is_ready=is_ready,
        is_draining=is_draining,
    )


def stops(plan: Plan) -> list[str]:
    return [stop.replica_id for stop in plan.stops]


def test_a_missing_replica_is_started() -> None:
    plan = plan_replicas([CHAT], [], {})
    assert [start.lane for start in plan.starts] == ["chat"]
    assert "generation 3 asks for 1" in plan.starts[0].reason
    assert plan.settled == ()


def test_what_is_as_desired_is_left_alone_and_settled() -> None:
    plan = plan_replicas([CHAT], [replica("chat-1")], {})
    assert (plan.stops, plan.starts, plan.settled) == ((), (), ("chat",))


def test_a_replica_that_is_not_ready_yet_settles_nothing() -> None:
    plan = plan_replicas([CHAT], [replica("chat-1", is_ready=False)], {})
    assert (plan.stops, plan.starts, plan.settled) == ((), (), ())


def test_a_replica_of_another_spec_is_stopped_before_its_successor_starts() -> None:
    old = replica("chat-1", digest="old")
    first = plan_replicas([CHAT], [old], {})
    assert (stops(first), first.starts) == (["chat-1"], ())
    draining = plan_replicas([CHAT], [replace(old, is_draining=True)], {})
    assert (draining.stops, draining.starts) == ((), ())
    assert len(plan_replicas([CHAT], [], {}).starts) == 1


def test_another_launcher_replaces_a_replica_too() -> None:
    assert stops(plan_replicas([CHAT], [replica("chat-1", launcher="ray")], {})) == ["chat-1"]


def test_only_as_many_start_as_memory_was_given_for() -> None:
    three = replace(CHAT, num_replicas=3)
    plan = plan_replicas([three], [replica("chat-1"), replica("chat-2", is_draining=True)], {})
    assert len(plan.starts) == 1


def test_one_too_many_goes_the_unready_first() -> None:
    plan = plan_replicas([CHAT], [replica("chat-1", is_ready=False), replica("chat-2")], {})
    assert stops(plan) == ["chat-1"]
    assert plan.settled == ()


def test_replicas_of_a_deployment_that_is_gone_are_stopped() -> None:
    plan = plan_replicas([], [replica("chat-1"), replica("chat-2", is_draining=True)], {})
    assert stops(plan) == ["chat-1"]
    assert plan.stops[0].reason == "deployment chat no longer exists"


def test_a_crash_loop_holds_the_start_and_says_why() -> None:
    plan = plan_replicas([CHAT], [], {"chat": "failed 3 times"})
    assert plan.starts == ()
    assert plan.holds == {"chat": "failed 3 times"}


def test_a_problem_holds_starts_and_ends_nothing_that_runs() -> None:
    broken = replace(CHAT, problem="no such file", digest="unknown")
    plan = plan_replicas([broken], [replica("chat-1")], {})
    assert (plan.stops, plan.starts, plan.settled) == ((), (), ())
    assert plan.holds == {"chat": "no such file"}


def test_a_digest_ignores_the_id_and_the_order_of_settings_and_nothing_else() -> None:
    same = replace(TEMPLATE, replica_id="chat-9", settings={"b": 2, "a": 1})
    assert spec_digest(same) == CHAT.digest
    assert spec_digest(replace(same, fencing_token=7)) == CHAT.digest
    for other in (
        replace(TEMPLATE, settings={"a": 1, "b": 3}),
        replace(TEMPLATE, model_revision="m@2"),
        replace(TEMPLATE, engine_config_revision="e@2"),
        replace(TEMPLATE, artifact="/other"),
    ):
        assert spec_digest(other) != CHAT.digest


def test_a_digest_is_the_one_that_earlier_releases_stored() -> None:
    """Else an upgrade would restart every replica."""
    spec = ReplicaSpec(
        replica_id="x", deployment="chat", engine="fake", model_name="m", model_revision="m@1",
        engine_config_revision="e@1", artifact="/w", protocol_version=2,
        settings={"b": {"z": 1, "a": [1, 2]}, "a": None},
    )  # fmt: skip
    assert spec_digest(spec) == "f8c5a4794e918612320f6192e0a6ea3964d7bba33ea134daf7b8a43cedf2cc06"


def test_a_replica_that_speaks_another_protocol_is_replaced() -> None:
    old = replace(TEMPLATE, protocol_version=TEMPLATE.protocol_version + 1)
    assert spec_digest(old) != CHAT.digest
    before = msgspec.convert(
        {k: v for k, v in msgspec.to_builtins(TEMPLATE).items() if k != "protocol_version"},
        ReplicaSpec,
    )
    assert before.protocol_version == 1, "specs on disk from before say nothing"


def test_a_deployment_that_can_start_nothing_still_gives_back_what_is_too_many() -> None:
    held = replace(CHAT, problem="its weights are gone")
    actual = [replica("chat-1", digest="old"), replica("chat-2"), replica("chat-3", digest="old")]
    plan = plan_replicas([held], actual, {})
    assert stops(plan) == ["chat-1", "chat-3"]
    assert plan.starts == ()
    assert plan.holds == {"chat": "its weights are gone"}


def test_a_deployment_that_can_start_nothing_keeps_what_differs_when_it_is_not_too_many() -> None:
    held = replace(CHAT, problem="its weights are gone", num_replicas=2)
    plan = plan_replicas([held], [replica("chat-1", digest="old"), replica("chat-2")], {})
    assert stops(plan) == []
