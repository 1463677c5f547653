"""How servers of others are started: the arguments that they get."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from ruamel.yaml import YAML

import pilothouse_llamacpp.process
import pilothouse_llamacpp.replica
import pilothouse_sglang.process
import pilothouse_sglang.replica
import pilothouse_vllm.process
import pilothouse_vllm.replica
from dataplane.engine import ReplicaSpec
from dataplane.owned_server.plan import ProgramMissingError, ServerPlan

EACH = pytest.mark.parametrize(
    "create",
    [
        pilothouse_vllm.replica.create_plan,
        pilothouse_llamacpp.replica.create_plan,
        pilothouse_sglang.replica.create_plan,
    ],
    ids=["vllm", "llamacpp", "sglang"],
)

CHECKS = {
    "vllm": pilothouse_vllm.process.pilothouse_check_engine_settings,
    "llamacpp": pilothouse_llamacpp.process.pilothouse_check_engine_settings,
    "sglang": pilothouse_sglang.process.pilothouse_check_engine_settings,
}
CreatePlan = Callable[[ReplicaSpec, int], ServerPlan]


@pytest.fixture(autouse=True)
def granted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_PROGRAMS", f"server={sys.executable}")
    monkeypatch.delenv("ENGINE_OPTIONS", raising=False)


def plan_of(create: CreatePlan, **settings: object) -> ServerPlan:
    spec = ReplicaSpec(
        replica_id="r-1",
        deployment="chat",
        engine="any",
        model_name="demo",
        model_revision="demo@1",
        engine_config_revision="e@1",
        artifact="/models/demo",
        settings={"server_executable": "server", **settings},
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
    monkeypatch: pytest.MonkeyPatch,
    create: CreatePlan,
    model: str,
    name: str,
    length: tuple[str, str],
    seats: tuple[str, str],
) -> None:
    monkeypatch.setenv("ENGINE_OPTIONS", "--tensor-split")
    plan = plan_of(create, max_model_len=512, max_num_seqs=2, server_args=["--tensor-split", "7"])
    assert plan.argv[0] == sys.executable
    assert value_of(plan, model) == "/models/demo"
    assert value_of(plan, name) == "demo"
    assert value_of(plan, "--host") == "127.0.0.1"
    assert value_of(plan, "--port") == "4321"
    assert value_of(plan, length[0]) == length[1]
    assert value_of(plan, seats[0]) == seats[1]
    assert plan.argv[-2:] == ("--tensor-split", "7")


def test_what_nobody_settled_is_left_to_the_server_and_its_environment_gets_more() -> None:
    plan = plan_of(
        pilothouse_vllm.replica.create_plan, server_environment=["VLLM_CPU_KVCACHE_SPACE=1"]
    )
    assert "--max-model-len" not in plan.argv
    assert plan.environment["VLLM_CPU_KVCACHE_SPACE"] == "1"
    assert "PATH" in plan.environment


def test_an_unknown_setting_is_refused_with_the_valid_ones() -> None:
    with pytest.raises(ValueError, match=r"settings\.server_arg: unknown setting.*server_args"):
        plan_of(pilothouse_vllm.replica.create_plan, server_arg=["--odd"])


@EACH
def test_a_server_sees_none_of_the_control_planes_secrets(
    monkeypatch: pytest.MonkeyPatch, create: CreatePlan
) -> None:
    secrets = {
        "ENGINE_KEY_UPSTREAM", "ENGINE_KEYS_DIR", "PILOTHOUSE_CONFIG_URL", "PILOTHOUSE_KEY",
        "PGPASSFILE", "HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "OTEL_EXPORTER_OTLP_HEADERS",
        "VLLM_API_KEY", "PYTHONPATH",
    }  # fmt: skip
    for name in secrets:
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    environment = plan_of(create).environment
    assert secrets.isdisjoint(environment)
    assert environment["CUDA_VISIBLE_DEVICES"] == "0"


@EACH
@pytest.mark.parametrize(
    "words",
    [
        ["--host", "0.0.0.0"],
        ["--host=0.0.0.0"],
        ["--port", "1"],
        ["--trust-remote-code"],
        ["--trust_remote_code"],
        ["--trust-remote"],
        ["--middleware", "os.system"],
        ["--chat-template-file", "/etc/passwd"],
        ["--tool-parser-plugin", "/tmp/a.py"],
        ["--tools", "all"],
        ["--api-key", "k"],
        ["--rpc", "10.0.0.1:1"],
        ["serve.py"],
        ["--reasoning-format", "/tmp/a.py"],
        ["--seed", "1", "--config", "a.yaml"],
    ],
    ids=" ".join,
)
def test_arguments_that_load_code_or_listen_elsewhere_are_refused(
    create: CreatePlan, words: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"settings\.server_args\.\d: "):
        plan_of(create, server_args=words)


@EACH
@pytest.mark.parametrize(
    "entry",
    ["LD_PRELOAD=/tmp/a.so", "PATH=/tmp", "PYTHONPATH=/tmp", "BASH_ENV=/tmp/a", "HOME=/tmp",
     "LLAMA_ARG_HOST=0.0.0.0", "VLLM_API_KEY=k", "VLLM_PLUGINS=a", "GGML_BACKEND_PATH=/tmp/a.so",
     "OMP_NUM_THREADS=/tmp/a"],
)  # fmt: skip
def test_variables_that_decide_which_code_runs_are_refused(create: CreatePlan, entry: str) -> None:
    with pytest.raises(ValueError, match=r"settings\.server_environment\.0: "):
        plan_of(create, server_environment=[entry])


@pytest.mark.parametrize("named", ["bash", "/bin/sh", "../server", "python3"])
def test_only_programs_that_the_machines_operator_granted_are_started(named: str) -> None:
    with pytest.raises(ValueError, match=r"server_executable.*ENGINE_PROGRAMS.*Granted: server"):
        plan_of(pilothouse_vllm.replica.create_plan, server_executable=named)


def test_a_program_may_be_named_by_the_path_that_is_granted() -> None:
    plan = plan_of(pilothouse_vllm.replica.create_plan, server_executable=sys.executable)
    assert plan.argv[0] == sys.executable


def test_the_usual_program_is_found_in_absolute_folders_of_path_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:")
    with pytest.raises(ProgramMissingError, match=r"vllm is no program here.*ENGINE_PROGRAMS"):
        plan_of(pilothouse_vllm.replica.create_plan, server_executable=None)
    monkeypatch.setenv("PATH", str(tmp_path))
    plan = plan_of(pilothouse_vllm.replica.create_plan, server_executable=None)
    assert plan.argv[0] == str(program)


def test_a_launched_server_gets_its_key_where_nobody_else_can_read_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINE_KEY_OWN", "of-this-server")
    plan = plan_of(pilothouse_vllm.replica.create_plan, api_key_env="ENGINE_KEY_OWN")
    assert plan.environment["VLLM_API_KEY"] == "of-this-server"
    assert "of-this-server" not in " ".join(plan.argv)
    assert "of-this-server" not in repr(plan)
    with pytest.raises(ValueError, match="leave api_key_env and api_key_file out"):
        plan_of(pilothouse_sglang.replica.create_plan, api_key_env="ENGINE_KEY_OWN")


def test_config_is_told_of_them_where_it_is_accepted() -> None:
    settings = {"server_executable": "sh", "server_args": ["--seed", "1", "--worker-cls", "a.B"]}
    told = pilothouse_vllm.process.pilothouse_check_engine_settings("vllm", settings)
    assert told is not None
    assert [key for key, _ in told] == ["server_executable", "server_args.2"]
    assert "can load code" in told[1][1]
    assert "ENGINE_OPTIONS=--worker-cls" in told[1][1]


def test_what_the_machines_operator_wrote_wrongly_is_told_with_its_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ENGINE_PROGRAMS", "vllm=bin/vllm")
    told = pilothouse_vllm.process.pilothouse_check_engine_settings("vllm", {"server_args": ["-q"]})
    assert told is not None
    assert "ENGINE_PROGRAMS" in told[0][1]
    assert "'vllm=bin/vllm'" in told[0][1]
    assert pilothouse_vllm.process.pilothouse_check_engine_settings("vllm", {}) == []


def test_the_example_is_accepted_where_its_programs_are_granted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = Path("ops/examples/attach/launched.yaml").read_text()
    (programs,) = [line for line in text.splitlines() if line.startswith("# ENGINE_PROGRAMS=")]
    monkeypatch.setenv("ENGINE_PROGRAMS", programs.partition("=")[2])
    found = [each for each in YAML(typ="safe").load_all(text) if each["kind"] == "EngineConfig"]
    told = {
        each["spec"]["engine"]: CHECKS[each["spec"]["engine"]](
            each["spec"]["engine"], each["spec"]["settings"]
        )
        for each in found
    }
    assert told == {"vllm": [], "llamacpp": [], "sglang": []}
