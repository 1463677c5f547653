"""`pilothouse plan`, `apply --plan` and `apply --watch` as a person sees them."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.rollouts.machine import RolloutState
from controlplane.store.database import Database
from controlplane.store.deployments import set_observed_generation
from controlplane.store.rollouts import find_last, move_rollout
from dataplane.clock import wall_clock
from tests.controlplane.api.recorded_requests import record_requests
from tests.controlplane.config_documents import DEPLOYMENT, DESIGN_POLICY, MODEL, SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config

OTHER_MODEL = MODEL.replace("smollm2.gguf", "other.gguf")
IN_STEPS = DEPLOYMENT.replace(
    "replicas: 2", "replicas: 2, rollout: {steps: [{share: 5%, for: 10m, pause: true}]}"
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConfigServer]:
    with serve_config(tmp_path) as server:
        monkeypatch.setenv("PILOTHOUSE_URL", server.url)
        yield server


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def written(folder: Path, *texts: str) -> Path:
    folder.mkdir()
    for index, text in enumerate(texts):
        (folder / f"{index}.yaml").write_text(text)
    return folder


@pytest.fixture
def applied(server: ConfigServer, tmp_path: Path) -> Path:
    """A folder that is what is stored."""
    folder = written(tmp_path / "conf", *SERVICE)
    assert run("apply", "-f", folder).exit_code == 0
    return folder


def lines(result: Result) -> list[str]:
    return [line.strip() for line in result.output.splitlines()]


def test_what_is_stored_as_the_files_say_needs_nothing(applied: Path) -> None:
    result = run("plan", "-f", applied, "--check")

    assert result.exit_code == 0, result.output
    assert lines(result)[-1].startswith("nothing to do")


def test_a_change_is_told_from_its_field_to_whom_it_meets(
    server: ConfigServer, applied: Path
) -> None:
    record_requests(
        server.request_db, {"arrived_at_unix_ns": wall_clock() - 10**9, "tenant": "acme"}
    )
    vip = "- {name: vip, match: 'tenant.name == \"acme\"'}"
    (applied / "3.yaml").write_text(DESIGN_POLICY.replace("classes:\n", f"classes:\n    {vip}\n"))

    result = run("plan", "-f", applied, "--check")

    assert result.exit_code == 1
    found = lines(result)
    assert "~ AdmissionPolicy chat@2, of chat@1" in found
    assert "policy: chat@1 -> chat@2, at once" in found
    assert "replicas: 2 start, 0 are ended" not in result.output
    assert "1 of tenant acme move from class batch into class vip" in found
    assert 'rule: class vip (tenant.name == "acme") would have taken 1' in found


def test_a_rollout_is_announced_with_its_steps(applied: Path) -> None:
    (applied / "4.yaml").write_text(IN_STEPS)
    run("apply", "-f", applied)
    (applied / "0.yaml").write_text(OTHER_MODEL)

    found = lines(run("plan", "-f", applied))

    assert "model: smollm2@1 -> smollm2@2, by a rollout" in found
    assert "a rollout begins: 5 % of the traffic for 10m, then waits for a person" in found


def test_programs_get_the_plan_in_json(applied: Path) -> None:
    answer = json.loads(run("plan", "-f", applied, "-o", "json").output)

    assert answer["has_changes"] is False
    assert {each["action"] for each in answer["plan"]["documents"]} == {"nothing"}


def test_mistakes_are_named_with_their_places(server: ConfigServer, tmp_path: Path) -> None:
    folder = written(tmp_path / "conf", MODEL.replace("path", "pth"))

    result = run("plan", "-f", folder)

    assert result.exit_code == 2
    assert f"{folder}/0.yaml:4:14" in result.output


def test_a_saved_plan_is_applied_exactly(applied: Path, tmp_path: Path) -> None:
    (applied / "0.yaml").write_text(OTHER_MODEL)
    run("plan", "-f", applied, "--save", tmp_path / "model.plan")
    (applied / "0.yaml").write_text(MODEL.replace("smollm2.gguf", "third.gguf"))

    result = run("apply", "--plan", tmp_path / "model.plan")

    assert result.exit_code == 0, result.output
    assert "Model smollm2@2 updated" in lines(result)
    [stored] = json.loads(run("get", "model", "smollm2", "-o", "json").output)
    assert stored["document"]["spec"]["artifact"]["path"] == "/models/other.gguf"


def test_a_saved_plan_is_refused_where_the_world_has_moved(applied: Path, tmp_path: Path) -> None:
    (applied / "0.yaml").write_text(OTHER_MODEL)
    run("plan", "-f", applied, "--save", tmp_path / "model.plan")
    run("apply", "-f", written(tmp_path / "more", DESIGN_POLICY.replace("64", "65")))

    result = run("apply", "--plan", tmp_path / "model.plan")

    assert result.exit_code == 1
    assert "AdmissionPolicy/chat is at 2" in result.output
    assert "plan again" in result.output


@pytest.mark.parametrize("text", ["", "{}", '{"format": "x"}', "kind: Model"])
def test_a_file_that_is_no_plan_is_refused(server: ConfigServer, tmp_path: Path, text: str) -> None:
    (tmp_path / "x.plan").write_text(text)

    result = run("apply", "--plan", tmp_path / "x.plan")

    assert result.exit_code == 2
    assert "--save" in result.output


@pytest.mark.usefixtures("server")
def test_apply_takes_files_or_a_plan() -> None:
    assert run("apply").exit_code == 2
    assert run("apply", "-f", "x.yaml", "--plan", "y").exit_code == 2


def config_db(server: ConfigServer) -> Database:
    database: Database = server.app.state.config_db
    return database


def settle_later(server: ConfigServer, generation: int) -> threading.Thread:
    """As the operator would, a moment later."""

    def settle() -> None:
        while not is_at(server, generation):
            time.sleep(0.05)
        with config_db(server).session() as session:
            set_observed_generation(session, "chat", generation)

    thread = threading.Thread(target=settle)
    thread.start()
    return thread


def is_at(server: ConfigServer, generation: int) -> bool:
    found = server.http.get("/api/v1/plan/standing").json()
    return bool(found) and found[0]["generation"] == generation


def test_watching_ends_when_all_is_settled(server: ConfigServer, applied: Path) -> None:
    (applied / "0.yaml").write_text(OTHER_MODEL)
    operator = settle_later(server, 2)

    result = run("apply", "-f", applied, "--watch")

    operator.join()
    assert result.exit_code == 0, result.output
    assert lines(result)[-2:] == ["chat: generation 2 is what runs", "settled"]


def test_watching_what_moves_nothing_ends_at_once(applied: Path) -> None:
    result = run("apply", "-f", applied, "--watch")

    assert result.exit_code == 0
    assert lines(result)[-1] == "settled: no deployment had to move"


def test_watching_is_bounded(applied: Path) -> None:
    (applied / "0.yaml").write_text(OTHER_MODEL)

    result = run("apply", "-f", applied, "--watch", "--timeout", "100ms")

    assert result.exit_code == 1
    assert "goes on by itself" in result.output


def test_ctrl_c_ends_the_watching_and_takes_nothing_back(
    server: ConfigServer, applied: Path
) -> None:
    (applied / "0.yaml").write_text(OTHER_MODEL)
    words = ["apply", "-f", str(applied), "--watch", "--url", server.url]
    with subprocess.Popen(
        [sys.executable, "-m", "controlplane.cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as watching:
        assert watching.stdout is not None
        while "generation 2 is being brought about" not in watching.stdout.readline():
            assert watching.poll() is None, "it ended before anything was settled"
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate()

    assert watching.returncode == 130
    assert "goes on by itself" in errors
    assert is_at(server, 2)


def test_a_rollout_that_is_aborted_ends_the_watching_with_a_failure(
    server: ConfigServer, applied: Path
) -> None:
    (applied / "4.yaml").write_text(IN_STEPS)
    run("apply", "-f", applied)
    (applied / "0.yaml").write_text(OTHER_MODEL)

    def abort() -> None:
        while True:
            with config_db(server).session() as session:
                rollout = find_last(session, "chat")
                if rollout is not None:
                    over = replace(
                        rollout.progress, state=RolloutState.ABORTED, reason="worse ttft"
                    )
                    move_rollout(session, rollout, over, now_unix_ns=wall_clock())
                    return
            time.sleep(0.05)

    worker = threading.Thread(target=abort)
    worker.start()
    result = run("apply", "-f", applied, "--watch")

    worker.join()
    assert result.exit_code == 1, result.output
    assert "rollout 1 is aborted: worse ttft" in lines(result)[-1]
