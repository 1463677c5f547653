"""A real vLLM and a real llama.cpp server behind one gateway at once: one client, one shape."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.e2e.served import wait_for
from tests.peers.engines import MODEL_LEN, NUM_SEQS, Peers, apply, documents_of

NAMES = ("by-vllm", "by-llamacpp")
_SECONDS = 120


@pytest.fixture(scope="module")
def attached(peers: Peers, tmp_path_factory: pytest.TempPathFactory) -> Peers:
    folder: Path = tmp_path_factory.mktemp("attached")
    documents = documents_of("by-vllm", "vllm", f'url: "{peers.vllm}"') + "---"
    apply(
        peers.served,
        folder,
        documents + documents_of("by-llamacpp", "llamacpp", f'url: "{peers.llamacpp}"'),
    )
    for name in NAMES:
        is_connected = partial(lambda each: stats_of(peers, each).get("num_steps"), name)
        wait_for(is_connected, _SECONDS, f"{name} to be connected, and its first gauges")
    return peers


def report_of(peers: Peers, name: str) -> dict[str, Any]:
    """What the gateway says of the replica of a deployment."""
    gateways = peers.served.get("/api/v1/gateways")["gateways"]
    found = [
        each
        for gateway in gateways
        for each in gateway["replicas"]
        if each["replica_id"].startswith(f"{name}-")
    ]
    return dict(found[0]) if found else {}


def stats_of(peers: Peers, name: str) -> dict[str, Any]:
    return report_of(peers, name).get("stats") or {}


def client_of(peers: Peers) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{peers.served.gateway_url}/v1", api_key="none", max_retries=0)


def say(text: str) -> Any:
    return [{"role": "user", "content": text}]


def shape(value: Any) -> Any:
    """Names and types: what stands in it is another matter."""
    if isinstance(value, Mapping):
        return {key: shape(each) for key, each in sorted(value.items())}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def asked_plainly(client: openai.OpenAI, model: str) -> Any:
    answer = client.chat.completions.create(
        model=model, messages=say("What is the capital of France?"), temperature=0, max_tokens=12
    )
    assert answer.choices[0].message.content
    return shape(answer.model_dump())


def streamed(client: openai.OpenAI, model: str) -> Any:
    stream = client.chat.completions.create(
        model=model,
        messages=say("What is the capital of France?"),
        temperature=0,
        max_tokens=12,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk.model_dump() for chunk in stream]
    told = [shape(chunk) for chunk in chunks]
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    return [each for index, each in enumerate(told) if each not in told[:index]]


def completed(client: openai.OpenAI, model: str) -> Any:
    answer = client.completions.create(model=model, prompt="The sea is", max_tokens=4)
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (3, 4)
    return shape(answer.model_dump())


def answered_twice(client: openai.OpenAI, model: str) -> Any:
    answer = client.chat.completions.create(
        model=model, messages=say("Say a word."), n=2, max_tokens=4, seed=3
    )
    assert len(answer.choices) == 2
    assert {choice.index for choice in answer.choices} == {0, 1}
    return shape(answer.model_dump())


def told_with_logprobs(client: openai.OpenAI, model: str) -> Any:
    answer = client.chat.completions.create(
        model=model, messages=say("Say a word."), logprobs=True, top_logprobs=2, max_tokens=2
    )
    content = answer.choices[0].logprobs
    assert content is not None
    assert content.content
    return shape(answer.model_dump())


def refused_for_its_length(client: openai.OpenAI, model: str) -> Any:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=say("word " * 3000), max_tokens=4)
    assert refused.value.code == "context_length_exceeded"
    return shape(refused.value.body), refused.value.status_code


def refused_for_a_parameter(client: openai.OpenAI, model: str) -> Any:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model=model, messages=say("hello"), extra_body={"priority": 7}
        )
    assert refused.value.code == "unknown_parameter"
    return shape(refused.value.body), refused.value.status_code


@pytest.mark.parametrize(
    "ask",
    [
        asked_plainly,
        streamed,
        completed,
        answered_twice,
        told_with_logprobs,
        refused_for_its_length,
        refused_for_a_parameter,
    ],
)
def test_the_same_client_gets_the_same_shape_of_answer_from_both(
    attached: Peers, ask: Callable[[openai.OpenAI, str], Any]
) -> None:
    with client_of(attached) as client:
        first, second = (ask(client, name) for name in NAMES)
    assert first == second


def test_the_gauges_of_both_are_known_with_their_age(attached: Peers) -> None:
    def idle(name: str) -> dict[str, Any] | None:
        stats = stats_of(attached, name)
        # What was asked for last may still have been running when the page was read.
        return stats if (stats["num_running"], stats["num_waiting"]) == (0, 0) else None

    vllm, llamacpp = (
        wait_for(partial(idle, name), _SECONDS, f"{name} to show that it is idle") for name in NAMES
    )
    for stats in (vllm, llamacpp):
        assert 0 <= stats["age_seconds"] < 30
        assert stats["num_steps"] > 0
    assert vllm["num_blocks"] > 0
    assert vllm["num_free_blocks"] <= vllm["num_blocks"]
    assert llamacpp["max_num_seqs"] == NUM_SEQS
    assert llamacpp.get("num_blocks") is None


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_leaves_ends_its_request_at_the_engine(attached: Peers, name: str) -> None:
    body = {
        "model": name,
        "messages": say("Tell a long story."),
        "max_tokens": MODEL_LEN - 200,
        "stream": True,
        "ignore_eos": True,
    }
    url = f"{attached.served.gateway_url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=60) as response:
        assert response.status_code == httpx.codes.OK, response.read()
        lines = response.iter_lines()  # to be let go of is to be closed
        assert next(lines)
        wait_for(lambda: stats_of(attached, name).get("num_running") == 1, 30, "it to run")
    wait_for(lambda: stats_of(attached, name).get("num_running") == 0, 30, "its end there")


def test_vllms_own_span_stands_beside_its_request(attached: Peers) -> None:
    with client_of(attached) as client:
        answer = client.chat.completions.with_raw_response.create(
            model="by-vllm", messages=say("Say a word."), max_tokens=4
        )
    request_id = answer.headers["x-request-id"]

    def joined() -> Any:
        found = httpx.get(f"{attached.served.url}/api/v1/requests/{request_id}", timeout=10)
        detail = found.json() if found.is_success else {}
        return detail if detail.get("engine_spans") else None

    detail = wait_for(joined, 30, "the span of the engine")
    (span,) = detail["engine_spans"]
    assert span["name"] == "llm_request"
    assert span["attributes"]["gen_ai.latency.time_in_model_prefill"] >= 0
    assert request_id in span["attributes"]["gen_ai.request.id"]


def test_what_vllm_found_in_its_prefix_cache_is_told(attached: Peers) -> None:
    prompt = f"At {time.time_ns()} the sea was calm. " * 12
    with client_of(attached) as client:
        found = [
            client.completions.create(model="by-vllm", prompt=prompt, max_tokens=1).usage
            for _ in range(2)
        ]
    cached = [usage.prompt_tokens_details.cached_tokens for usage in found]  # type: ignore[union-attr]
    assert cached[0] == 0
    assert cached[1] is not None
    assert cached[1] > 100
