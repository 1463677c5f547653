"""How servers of others are started: the arguments that they get."""

import sys
from collections.abc import Callable

import pytest

import pilothouse_llamacpp.replica
import pilothouse_sglang.replica
import pilothouse_vllm.replica
from dataplane.engine import ReplicaSpec
from dataplane.owned_server.plan import ServerPlan

CreatePlan = Callable[[ReplicaSpec, int], ServerPlan]


def plan_of(create: CreatePlan, **settings: object) -> ServerPlan:
    spec = ReplicaSpec(
        replica_id="r-1",
        deployment="chat",
        engine="any",
        model_name="demo",
        model_revision="demo@1",
        engine_config_revision="e@1",
        artifact="/models/demo",
        settings={"server_executable": sys.executable, **settings},
    )
    return create(spec, 4321)


def value_of(plan: ServerPlan, flag: str) -> str:
    return plan.argv[plan.argv.index(flag) + 1]


@pytest.mark.parametrize(
    ("create", "model", "name", "length", "seats"),
    [
        (
            pilothouse_vllm.replica.create_plan,
            "serve",
            "--served-model-name",
            ("--max-model-len", "512"),
            ("--max-num-seqs", "2"),
        ),
        (
            pilothouse_llamacpp.replica.create_plan,
            "--model",
            "--alias",
            ("--ctx-size", "1024"),
            ("--parallel", "2"),
        ),
        (
            pilothouse_sglang.replica.create_plan,
            "--model-path",
            "--served-model-name",
            ("--context-length", "512"),
            ("--max-running-requests", "2"),
        ),
    ],
)
def test_a_server_gets_model_name_length_and_seats_and_listens_on_the_loopback(
    create: CreatePlan, model: str, name: str, length: tuple[str, str], seats: tuple[str, str]
) -> None:
    plan = plan_of(create, max_model_len=512, max_num_seqs=2, server_args=["--odd", "7"])
    assert value_of(plan, model) == "/models/demo"
    assert value_of(plan, name) == "demo"
    assert value_of(plan, "--host") == "127.0.0.1"
    assert value_of(plan, "--port") == "4321"
    assert value_of(plan, length[0]) == length[1]
    assert value_of(plan, seats[0]) == seats[1]
    assert plan.argv[-2:] == ("--odd", "7")


def test_what_nobody_settled_is_left_to_the_server_and_its_environment_is_ours_and_more() -> None:
    plan = plan_of(
        pilothouse_vllm.replica.create_plan, server_environment=["VLLM_CPU_KVCACHE_SPACE=1"]
    )
    assert "--max-model-len" not in plan.argv
    assert plan.environment["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "PATH" in plan.environment


def test_an_unknown_setting_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match=r"settings\.server_arg: unknown setting.*server_args"):
        plan_of(pilothouse_vllm.replica.create_plan, server_arg=["--odd"])
