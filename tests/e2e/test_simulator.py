"""An installation without a model: the simulator behind the real gateway, told of everywhere."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane import names
from tests.e2e.served import Served, start_serve, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SECOND = """
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {name: slow-start}
spec:
  engine: simulator
  settings:
    start_seconds: {acquire: 0.3, load: 0.5, warm_up: 0.2}
    output_tokens: {constant: 5}
---
apiVersion: pilothouse/v1
kind: Model
metadata: {name: second}
spec: {artifact: {package: pilothouse_simulator, file: bytes.gguf}, max_model_len: 128}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {name: second}
spec: {model: second, engine: slow-start, contract: simulated-chat, policy: simulated-chat}
"""


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    installation = start_serve(
        tmp_path_factory.mktemp("simulated") / "state", options=["--demo", "simulator"]
    )
    try:
        installation.wait_until_ready()
        yield installation
    finally:
        status = installation.stop()
    assert status == 0, installation.log_path.read_text()


def test_the_proof_that_it_answers_is_one_request_and_no_junk(simulated: Served) -> None:
    def own_requests() -> list[dict[str, Any]]:
        url = f"{simulated.url}/api/v1/requests"
        answer = httpx.get(url, params={"tenant": "_pilothouse"}, timeout=10)
        found: list[dict[str, Any]] = answer.json()["requests"]
        return found

    (own,) = wait_for(own_requests, 30, "the record of the proof")
    assert own["status_code"] == 200


def ask(served: Served, **body: Any) -> httpx.Response:
    return httpx.post(
        f"{served.gateway_url}/v1/completions",
        json={"model": "bytes", "prompt": "Once upon a time, in a harbour far away", **body},
        timeout=60,
    )


def test_a_chat_is_streamed_and_its_whole_life_recorded(simulated: Served) -> None:
    body = {
        "model": "bytes", "seed": 7, "stream": True, "max_tokens": 30, "ignore_eos": True,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
    }  # fmt: skip
    url = f"{simulated.gateway_url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=60) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
        request_id = response.headers["x-request-id"]
    assert lines[-1] == "[DONE]"
    chunks = [json.loads(line) for line in lines[:-1]]
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])
    assert len(text) >= 30
    assert text.isprintable()

    detail = wait_for(lambda: find_request(simulated, request_id), 30, "the record")
    assert detail["request"]["disposition"] == "length"
    assert detail["request"]["num_output_tokens"] == 30
    phases = [phase["name"] for phase in detail["life"]["phases"]]
    assert phases == ["queue", "prefill", "decode", "delivery", "cleanup"]


def find_request(served: Served, request_id: str) -> dict[str, Any] | None:
    answer = httpx.get(f"{served.url}/api/v1/requests/{request_id}", timeout=10)
    detail: dict[str, Any] = answer.json()
    return detail if answer.status_code == 200 else None


def test_a_seed_gives_the_same_answers_again_and_reuses_the_prompts_blocks(
    simulated: Served,
) -> None:
    first, again = (ask(simulated, seed=3, n=2, max_tokens=40).json() for _ in range(2))
    assert first["choices"] == again["choices"]
    assert first["choices"][0]["text"] != first["choices"][1]["text"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 32


def test_what_has_no_meaning_here_is_refused(simulated: Served) -> None:
    refused = ask(simulated, logprobs=3)
    assert refused.status_code == 400
    assert "logprobs" in refused.json()["error"]["message"]


def test_metrics_and_console_tell_the_memory_that_the_documents_say(simulated: Served) -> None:
    assert f"{names.REPLICA_KV_BLOCKS} 2048.0" in simulated.metrics_of_replica()

    lines = wait_for(lambda: find_ledger(simulated), 20, "the ledger")
    num_bytes = {line["name"]: line["num_bytes"] for line in lines}
    assert num_bytes["weights"] == 14 * 2**30
    assert num_bytes["kv"] == 2048 * 16 * 128 * 2**10
    page = httpx.get(f"{simulated.url}/deployments/simulated-chat", timeout=10).text
    assert 'class="ledger"' in page


def find_ledger(served: Served) -> Any:
    (lane,) = served.get("/api/v1/deployments/simulated-chat")["lanes"]
    memory = lane["load"] and lane["load"]["memory"]
    return memory and memory["lines"]


def test_no_process_of_it_has_torch(simulated: Served) -> None:
    replicas = simulated.get("/api/v1/replicas")["replicas"]
    pids = [replica["pid"] for replica in replicas]
    assert pids
    for pid in pids:
        assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


def test_another_deployment_is_applied_beside_it_and_starts_as_slowly_as_it_says(
    simulated: Served, tmp_path: Path
) -> None:
    (tmp_path / "second.yaml").write_text(SECOND)
    applied = subprocess.run(
        [sys.executable, "-m", "controlplane.cli", "apply", "-f", str(tmp_path),
         "--url", simulated.url],
        capture_output=True, text=True,
    )  # fmt: skip
    assert applied.returncode == 0, applied.stderr

    def second() -> Any:
        replicas = simulated.get("/api/v1/replicas")["replicas"]
        return next(
            (r for r in replicas if r["deployment"] == "second" and r["state"] == "ready"), None
        )

    stages = wait_for(second, 60, "the second deployment")["start_stages"]
    assert stages["acquire"] >= 0.3
    assert stages["load"] >= 0.5
    assert stages["warm_up"] >= 0.2
    answer = wait_for(
        lambda: (a := ask(simulated, model="second", max_tokens=80)).status_code == 200 and a,
        20,
        "the gateway to serve it",
    ).json()
    assert answer["usage"]["completion_tokens"] == 5
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert ask(simulated, model="second", max_tokens=100).status_code == 400
