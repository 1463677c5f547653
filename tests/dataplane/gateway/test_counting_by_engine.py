"""Prompts that the gateway guesses, and those that it lets their engine count: real HTTP before a
replayed vLLM server."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dataplane.lifecycle import Observability
from dataplane.policy import ReplicaEndpoint
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    MODEL,
    RunningGateway,
    deployment,
    running_gateway,
    snapshot,
    until,
)
from tests.endpoint_transcripts.exchange import read_transcript
from tests.endpoint_transcripts.replay import Replay, replaying

pytestmark = pytest.mark.anyio

COUNTED = "How long am I?"
"""Of 35 tokens with its template, as the engine says; the deployment takes 512."""


@pytest.fixture
def engine() -> Iterator[tuple[Replay, str]]:
    with replaying(read_transcript("vllm-0.32")) as served:
        yield served


@pytest.fixture
async def gateway(tmp_path: Path, engine: tuple[Replay, str]) -> AsyncIterator[RunningGateway]:
    endpoint = ReplicaEndpoint(replica_id="attached", engine="vllm", address=engine[1])
    policy = replace(deployment(), replicas=(endpoint,))
    async with running_gateway(tmp_path, snapshot(policy)) as running:
        await until(lambda: running.app.gateway.fleet.connected() == {"attached"})
        yield running


async def ask(gateway: RunningGateway, text: str, max_tokens: int) -> httpx.Response:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
    }
    return await gateway.http.post(CHAT, json=body)


async def test_a_prompt_that_surely_fits_is_not_counted_before_it_is_sent(
    gateway: RunningGateway, engine: tuple[Replay, str]
) -> None:
    answer = await ask(gateway, "What is the capital of France?", max_tokens=40)
    assert answer.status_code == httpx.codes.OK, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "The capital of France is Paris."
    assert answer.json()["usage"]["prompt_tokens"] == 37
    assert answer.json()["usage"]["prompt_tokens_details"] == {"cached_tokens": 0}
    assert "/tokenize" not in engine[0].paths


async def test_a_prompt_that_may_not_fit_is_counted_and_refused_by_its_exact_length(
    gateway: RunningGateway, engine: tuple[Replay, str]
) -> None:
    answer = await ask(gateway, COUNTED, max_tokens=480)
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "35 in the prompt" in answer.json()["error"]["message"]
    assert "/tokenize" in engine[0].paths


async def test_a_prompt_that_was_counted_and_fits_goes_its_way(
    gateway: RunningGateway, engine: tuple[Replay, str]
) -> None:
    await ask(gateway, COUNTED, max_tokens=477)
    record = await gateway.last_record(0)
    assert record.events[1].num_tokens == 35
    assert record.events[1].observability is Observability.OBSERVED
    assert record.replica_ids == ("attached",)


async def test_an_engine_that_does_not_count_leaves_the_guess_and_refuses_nobody(
    gateway: RunningGateway, engine: tuple[Replay, str]
) -> None:
    engine[0].withheld.add("/tokenize")
    await ask(gateway, COUNTED, max_tokens=480)
    record = await gateway.last_record(0)
    assert record.events[1].observability is Observability.INFERRED
    assert len(record.replica_ids) == 1


async def test_the_engines_own_words_for_a_prompt_that_is_too_long_reach_callers_as_openais_code(
    gateway: RunningGateway, engine: tuple[Replay, str]
) -> None:
    engine[0].withheld.add("/tokenize")
    answer = await ask(gateway, "word " * 5000, max_tokens=4)
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert "maximum context length" in answer.json()["error"]["message"]
