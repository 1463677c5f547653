"""Servers that Pilothouse starts itself: as replicas, and with no orphan left of them."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.served import Served, wait_for
from tests.peers.engines import Engines, Peers, apply, documents_of, vllm_environment

_SECONDS = 400
"""To wait for one thing at most: a vLLM takes minutes to start on a busy machine."""


def llamacpp_documents(engines: Engines) -> str:
    settings = f"{{server_executable: {engines.llama_server}, max_model_len: 512, max_num_seqs: 2}}"
    return documents_of("own-llamacpp", "llamacpp", f"path: {engines.gguf}", settings)


def vllm_documents(engines: Engines) -> str:
    entries = ", ".join(f"{key}={value}" for key, value in vllm_environment().items())
    settings = (
        f"{{server_executable: {engines.vllm}, max_model_len: 512, max_num_seqs: 2, "
        f"dtype: float32, server_args: [--enforce-eager], server_environment: [{entries}]}}"
    )
    return documents_of("own-vllm", "vllm", f"path: {engines.safetensors}", settings)


def ready_of(served: Served, name: str, other_than: str = "") -> dict[str, Any] | None:
    listed = served.get(f"/api/v1/replicas?deployment={name}")["replicas"]
    ready = [each for each in listed if each["state"] == "ready"]
    return next((dict(each) for each in ready if each["replica_id"] != other_than), None)


def answer_of(served: Served, name: str) -> str | None:
    body = {
        "model": name,
        "messages": [{"role": "user", "content": "What is the capital of France?"}],
        "max_tokens": 12,
        "temperature": 0,
    }
    answer = httpx.post(f"{served.gateway_url}/v1/chat/completions", json=body, timeout=120)
    if answer.status_code != httpx.codes.OK:
        return None  # until the gateway has connected to it
    return str(answer.json()["choices"][0]["message"]["content"])


def processes_at(address: str) -> list[int]:
    """Whoever was started to listen there."""
    port = address.rpartition(":")[2]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if port.encode() in words:
            found.append(int(folder.name))
    return found


@pytest.mark.timeout(4 * _SECONDS)
@pytest.mark.parametrize(
    ("name", "documents"),
    [("own-llamacpp", llamacpp_documents), ("own-vllm", vllm_documents)],
)
def test_a_launched_server_answers_is_replaced_when_it_is_killed_and_leaves_no_orphan(
    peers: Peers,
    engines: Engines,
    tmp_path: Path,
    name: str,
    documents: Callable[[Engines], str],
) -> None:
    served = peers.served
    apply(served, tmp_path / "documents", documents(engines))
    first = wait_for(lambda: ready_of(served, name), _SECONDS, "its first replica")
    assert "a probe generated a token" in first["reason"]
    assert wait_for(lambda: answer_of(served, name), _SECONDS, "an answer")
    assert processes_at(first["address"])

    os.kill(first["pid"], signal.SIGKILL)
    wait_for(lambda: not processes_at(first["address"]), 30, "the end of its server")
    second = wait_for(
        lambda: ready_of(served, name, other_than=first["replica_id"]), _SECONDS, "another"
    )
    apply(
        served,
        tmp_path / "documents",
        documents(engines).replace("policy: chat}", "policy: chat, replicas: 0}"),
    )
    wait_for(lambda: not processes_at(second["address"]), 120, "the end of the other server")
