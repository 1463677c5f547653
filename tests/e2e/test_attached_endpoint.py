"""Somebody else's endpoint behind the same gateway, through the same door as our own engine.

The endpoint is the installation's own gateway: to the adapter it is an OpenAI-compatible
server like any other, and a real one.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.served import Served, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.model]

DOCUMENTS = """
apiVersion: pilothouse/v1
kind: Model
metadata: {{name: elsewhere}}
spec: {{artifact: {{url: "{url}"}}}}
---
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {{name: attached}}
spec: {{engine: openai, settings: {{model: smollm2}}}}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {{name: attached}}
spec: {{model: elsewhere, engine: attached, contract: chat, policy: chat}}
"""


@pytest.fixture(scope="module")
def attached(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """`served`, with a second deployment that is its own gateway seen from outside."""
    folder: Path = tmp_path_factory.mktemp("attached")
    (folder / "attached.yaml").write_text(DOCUMENTS.format(url=served.gateway_url))
    done = subprocess.run(
        [sys.executable, "-m", "controlplane.cli", "apply", "-f", str(folder), "--url", served.url],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr

    def is_listed() -> bool:
        models = httpx.get(f"{served.gateway_url}/v1/models", timeout=5).json()["data"]
        return "elsewhere" in [model["id"] for model in models]

    wait_for(is_listed, 20, "the gateway to serve the attached model")
    return served


def record_of(served: Served, request_id: str) -> dict[str, Any]:
    def found() -> Any:
        answer = httpx.get(f"{served.url}/api/v1/requests/{request_id}", timeout=10)
        return answer.json() if answer.status_code == httpx.codes.OK else None

    detail: dict[str, Any] = wait_for(found, 10, "the record")
    return detail


def test_an_attached_endpoint_answers_like_our_own_engine(attached: Served) -> None:
    def ask(model: str) -> Any:
        with openai.OpenAI(base_url=f"{attached.gateway_url}/v1", api_key="none") as client:
            return client.chat.completions.with_raw_response.create(
                model=model,
                messages=[{"role": "user", "content": "What is the capital of France?"}],
                temperature=0,
                max_tokens=16,
            )

    def wait_and_ask() -> Any:
        try:
            return ask("elsewhere")
        except openai.InternalServerError:
            return None  # 503 until the gateway has connected to the new replica

    outside = wait_for(wait_and_ask, 20, "the attached endpoint to be connected")
    inside = ask("smollm2")
    theirs, ours = outside.parse(), inside.parse()
    assert theirs.choices[0].message.content == ours.choices[0].message.content
    assert "Paris" in theirs.choices[0].message.content
    assert theirs.usage.completion_tokens == ours.usage.completion_tokens
    assert theirs.choices[0].finish_reason == ours.choices[0].finish_reason

    detail = record_of(attached, outside.headers["x-request-id"])
    assert detail["record"]["cleanup_observability"] == "unobservable"
    assert detail["are_tokens_inferred"] is True
    kinds = {event["kind"]: event for event in detail["record"]["events"]}
    assert kinds["first_token"]["observability"] == "inferred"
    assert "released" not in kinds


def test_both_halves_of_the_call_share_one_trace(attached: Served) -> None:
    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    answer = httpx.post(
        f"{attached.gateway_url}/v1/completions",
        json={"model": "elsewhere", "prompt": "The sea is", "max_tokens": 4},
        headers={"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01"},
        timeout=60,
    )
    assert answer.status_code == httpx.codes.OK, answer.text

    def both() -> bool:
        listed = attached.get("/api/v1/requests?limit=20")["requests"]
        return len([row for row in listed if row["trace_id"] == trace_id]) == 2

    wait_for(both, 10, "the outer and the inner request under one trace id")
