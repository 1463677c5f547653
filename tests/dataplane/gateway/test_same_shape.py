"""One client and two engines behind one gateway: answers of one shape, from recorded ones."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataplane.policy import ReplicaEndpoint
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    RunningGateway,
    deployment,
    running_gateway,
    snapshot,
    until,
)
from tests.endpoint_transcripts.exchange import read_transcript
from tests.endpoint_transcripts.replay import replaying

pytestmark = pytest.mark.anyio

TRANSCRIPTS = {"vllm": "vllm-0.32", "llamacpp": "llamacpp-0.5"}


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    with ExitStack() as stack:
        policies = []
        for engine, transcript in TRANSCRIPTS.items():
            _, url = stack.enter_context(replaying(read_transcript(transcript)))
            endpoint = ReplicaEndpoint(replica_id=engine, engine=engine, address=url)
            served = deployment(name=engine, model_name=engine)
            policies.append(replace(served, replicas=(endpoint,)))
        async with running_gateway(tmp_path, snapshot(*policies)) as running:
            await until(lambda: running.app.gateway.fleet.connected() == set(TRANSCRIPTS))
            yield running


def shape(value: Any) -> Any:
    """Names and types; of lists, what kinds of entries they have."""
    if isinstance(value, Mapping):
        return {key: shape(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        kinds = [shape(each) for each in value]
        return [each for index, each in enumerate(kinds) if each not in kinds[:index]]
    return type(value).__name__


def chat(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 12, **more}


async def asked(gateway: RunningGateway, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """By engine: the status, and the shape of the answer or of its chunks."""
    told = {}
    for engine in TRANSCRIPTS:
        answer = await gateway.http.post(path, json=body | {"model": engine})
        if body.get("stream") and answer.is_success:
            lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
            assert lines[-1] == "[DONE]"
            content: Any = [json.loads(line) for line in lines[:-1]]
        else:
            content = answer.json()
        told[engine] = (answer.status_code, shape(content))
    return told


QUESTIONS: list[tuple[str, dict[str, Any], int]] = [
    (CHAT, chat("What is the capital of France?"), 200),
    (CHAT, chat("Count to a hundred.", stream=True), 200),
    (CHAT, chat("Count to a hundred.", stream=True, stream_options={"include_usage": True}), 200),
    (CHAT, chat("Say yes or no.", n=2), 200),
    (CHAT, chat("Tell logprobs.", logprobs=True, top_logprobs=2), 200),
    (COMPLETIONS, {"prompt": "The sea is", "max_tokens": 12}, 200),
    (CHAT, chat("word " * 5000), 400),
    (CHAT, chat("hello", priority=3), 400),
]


async def test_answers_of_both_engines_have_one_shape(gateway: RunningGateway) -> None:
    for path, body, status in QUESTIONS:
        told = await asked(gateway, path, body)
        assert told["vllm"] == told["llamacpp"], body
        assert told["vllm"][0] == status, body
