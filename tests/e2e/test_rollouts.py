"""Rollouts of a whole installation under load: what is good gets through, what is bad comes back,
and no caller notices either."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.gateway.arms import ROLLOUT_HEADER
from dataplane.processes import ProcessDirectory, is_alive
from tests.e2e.served import Served, start_serve, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ENGINE = """
kind: EngineConfig
metadata: {{name: rolled}}
spec:
  engine: simulator
  settings:
    cost_model_ms: {{iteration: {iteration}, per_prompt_token: 0.01, per_decode_step: 0.1}}
    output_tokens: {{constant: 12}}
    start_seconds: {{load: 0.2, warm_up: 0.1}}
"""
POLICY = """
kind: AdmissionPolicy
metadata: {{name: rolled}}
spec:
  classes: [{{name: interactive, max_queue: {max_queue}{match}}}]
  limits: {{max_active_per_replica: 16}}
"""
DEPLOYMENT = """
kind: Deployment
metadata: {name: rolled}
spec:
  model: bytes
  engine: rolled
  policy: rolled
  contract: simulated-chat
  replacement: {max_surge: 1, max_unavailable: 0}
  rollout:
    steps: [{share: 40%, for: 2s}, {share: 50%, for: 2s}]
    timeout: 10m
    analysis:
      min_requests: 30
      margins: {attainment: 30%, failures: 30%, cut: 30%, empty: 30%, answer_length: 60%, ttft: 80%, tpot: 60%}
"""  # noqa: E501
GOOD_ENGINE, SAME_ENGINE, SLOW_ENGINE = (
    ENGINE.format(iteration=milliseconds) for milliseconds in (2.0, 2.05, 30.0)
)
GOOD_POLICY, SAME_POLICY = (POLICY.format(max_queue=number, match="") for number in (256, 255))
CLOSED_POLICY = POLICY.format(max_queue=256, match=", match: 'tenant.tier == \"nobody\"'")
NUM_CALLERS = 4


@dataclass
class Heard:
    """What callers were answered."""

    statuses: Counter[int] = field(default_factory=Counter)
    arms: Counter[str] = field(default_factory=Counter)
    statuses_by_arm: Counter[tuple[str, int]] = field(default_factory=Counter)
    refusals: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    started = start_serve(
        tmp_path_factory.mktemp("rollouts") / "state", options=["--demo", "simulator"]
    )
    try:
        started.wait_until_ready()
        yield started
    finally:
        status = started.stop()
    assert status == 0, started.log_path.read_text()


@pytest.fixture(autouse=True)
def rolled(served: Served, tmp_path: Path) -> None:
    """The deployment as it was meant first, however the test before left it."""
    apply(served, tmp_path, DEPLOYMENT.partition("  rollout:")[0], GOOD_ENGINE, GOOD_POLICY)
    wait_for(lambda: ask(served).status_code == httpx.codes.OK, 60, "the deployment to answer")
    wait_for(lambda: runs(served) == GOOD_ENGINE, 60, "the first engine to run alone")
    apply(served, tmp_path, DEPLOYMENT)


def apply(served: Served, folder: Path, *documents: str) -> None:
    path = folder / "documents.yaml"
    path.write_text("---".join(f"\napiVersion: pilothouse/v1{each}" for each in documents))
    argv = [sys.executable, "-m", "controlplane.cli", "apply", "-f", str(path)]
    done = subprocess.run(
        [*argv, "--url", served.url, "--reason", "a test"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def runs(served: Served) -> str | None:
    """The engine config of all its replicas, as it was applied; None: they differ, or start."""
    lanes = served.get("/api/v1/deployments/rolled")["lanes"]
    alive = [lane for lane in lanes if not lane["is_ended"]]
    states = {lane["state"] for lane in alive}
    labels = {lane["engine_config_revision"] for lane in alive}
    if states != {"ready"} or len(labels) != 1:
        return None
    number = labels.pop().partition("@")[2]
    document = served.get(f"/api/v1/config/EngineConfig/rolled?number={number}")["document"]
    iteration = document["spec"]["settings"]["cost_model_ms"]["iteration"]
    return ENGINE.format(iteration=iteration)


def ask(served: Served, http: httpx.Client | None = None, session: str = "") -> httpx.Response:
    """One answer, as a stream: of others there is no pace."""
    messages = [{"role": "user", "content": "x" * 40}]
    body = {"model": "rolled", "messages": messages, "stream": True}
    headers = {"x-session-id": session} if session else {}
    url = f"{served.gateway_url}/v1/chat/completions"
    return (http or httpx).post(url, json=body, headers=headers, timeout=60)


@contextmanager
def load(served: Served) -> Iterator[Heard]:
    """Callers that call again as soon as they are answered, each time as another session."""
    heard, over, numbers, lock = Heard(), threading.Event(), itertools.count(), threading.Lock()

    def call() -> None:
        with httpx.Client() as http:
            while not over.is_set():
                answer = ask(served, http, f"s{next(numbers)}")
                arm = answer.headers.get(ROLLOUT_HEADER, "").rpartition(" ")[2]
                with lock:
                    heard.statuses[answer.status_code] += 1
                    heard.arms[arm] += 1
                    heard.statuses_by_arm[arm, answer.status_code] += 1
                    if answer.status_code != httpx.codes.OK:
                        heard.refusals.append(answer.text)

    callers = [threading.Thread(target=call) for _ in range(NUM_CALLERS)]
    for caller in callers:
        caller.start()
    try:
        yield heard
    finally:
        over.set()
        for caller in callers:
            caller.join()


def newest(served: Served) -> dict[str, Any]:
    rollouts = served.get("/api/v1/rollouts?deployment=rolled")["rollouts"]
    return dict(rollouts[0]) if rollouts else {"number": 0, "state": ""}


def end_of(served: Served, seconds: float = 200) -> dict[str, Any]:
    """The newest rollout, once it is over."""
    is_over = {"promoted", "aborted"}
    wait_for(lambda: newest(served)["state"] in is_over, seconds, "the rollout to end")
    return newest(served)


def test_an_engine_that_does_as_well_is_promoted_under_load(served: Served, tmp_path: Path) -> None:
    with load(served) as heard:
        apply(served, tmp_path, SAME_ENGINE)
        ended = end_of(served)
        wait_for(lambda: runs(served) == SAME_ENGINE, 60, "the candidate to run alone")
    assert ended["state"] == "promoted", ended
    assert set(heard.statuses) == {200}, heard.refusals
    assert heard.arms["candidate"] >= 60
    assert heard.arms["stable"] >= 60


def test_an_engine_that_is_slow_comes_back_and_nobody_is_refused(
    served: Served, tmp_path: Path
) -> None:
    with load(served) as heard:
        apply(served, tmp_path, SLOW_ENGINE)
        ended = end_of(served)
        wait_for(lambda: runs(served) == GOOD_ENGINE, 60, "the stable arm to run alone")
    assert ended["state"] == "aborted", ended
    assert "is worse: " in ended["reason"]
    assert ended["step"] == 1
    assert set(heard.statuses) == {200}, heard.refusals


def test_a_policy_that_lets_nobody_in_comes_back_within_seconds(
    served: Served, tmp_path: Path
) -> None:
    with load(served) as heard:
        apply(served, tmp_path, CLOSED_POLICY)
        ended = end_of(served)
        refused = ("candidate", heard.statuses_by_arm)
        wait_for(lambda: ROLLOUT_HEADER not in ask(served).headers, 5, "gateways to follow")
        before = sum(heard.statuses.values()) - heard.statuses[200]
        wait_for(lambda: heard.statuses[200] > 400, 60, "more answers")
        after = sum(heard.statuses.values()) - heard.statuses[200]
    assert ended["state"] == "aborted", ended
    assert "failures" in ended["reason"]
    assert after - before <= NUM_CALLERS, refused
    wrong = {arm for (arm, status) in heard.statuses_by_arm if status != 200}
    assert wrong == {"candidate"}


def test_a_control_plane_that_is_killed_goes_on_with_it(served: Served, tmp_path: Path) -> None:
    with load(served) as heard:
        apply(served, tmp_path, SAME_POLICY)
        number = newest(served)["number"]
        for _ in range(2):
            (process,) = [
                each
                for each in ProcessDirectory(served.state_dir).records()
                if each.role == "controlplane" and is_alive(each)
            ]
            os.kill(process.pid, signal.SIGKILL)
            wait_for(lambda: is_answering(served), 60, "the control plane to come back")
        ended = end_of(served)
    assert (ended["number"], ended["state"]) == (number, "promoted")
    assert set(heard.statuses) == {200}, heard.refusals


def is_answering(served: Served) -> bool:
    try:
        return httpx.get(f"{served.url}/healthz", timeout=5).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
