"""The official client, unmodified, against the real model."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from dataplane.tokenizer_loading import load_tokenizer
from tests.dataplane.gateway.running_gateway import find_tokenizer
from tests.e2e.served import Served, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.model]

QUESTION = "What is the capital of France?"


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{served.gateway_url}/v1", api_key="none", max_retries=0
    ) as connected:
        yield connected


def ask(client: openai.OpenAI, question: str = QUESTION, max_tokens: int = 24) -> str:
    answer = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": question}],
        temperature=0,
        max_tokens=max_tokens,
    )
    return answer.choices[0].message.content or ""


def test_the_capital_of_france_is_greedily_paris(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_completion_tokens=24,
    )
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.prompt_tokens > 20
    assert 0 < answer.usage.completion_tokens <= 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_stream_adds_up_to_the_answer_in_one_piece(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=24,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == ask(client)
    assert chunks[-1].usage is not None
    assert len([chunk for chunk in chunks if chunk.choices]) > 5


def test_a_completion_continues_its_prompt(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="smollm2", prompt="The capital of France is", temperature=0, max_tokens=8
    )
    assert "Paris" in answer.choices[0].text
    assert answer.choices[0].finish_reason == "length"


def test_a_stop_string_ends_the_answer_and_never_shows(client: openai.OpenAI) -> None:
    whole = ask(client, max_tokens=24)
    stop = whole[6:14]
    stream = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=24,
        stop=[stop],
        stream=True,
    )
    chunks = [chunk for chunk in stream if chunk.choices]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == whole[: whole.index(stop)]
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_seed_makes_sampling_repeat_itself(client: openai.OpenAI) -> None:
    def sample(seed: int) -> str:
        answer = client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "Tell me a story."}],
            temperature=1.0,
            top_p=0.9,
            seed=seed,
            max_tokens=16,
            extra_body={"top_k": 50},
        )
        return answer.choices[0].message.content or ""

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1


def test_greedy_answers_to_one_prompt_are_equal_and_interleaved(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=24,
        n=2,
        stream=True,
        stream_options={"include_usage": True},
    )
    texts = {0: "", 1: ""}
    order = []
    usage = None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            order.append(choice.index)
    assert texts[0] == texts[1] == ask(client)
    assert order != sorted(order)
    assert usage is not None
    assert usage.completion_tokens % 2 == 0


def test_a_seed_gives_several_answers_of_which_each_is_its_own(client: openai.OpenAI) -> None:
    def sample() -> list[str | None]:
        answer = client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "Tell me a story."}],
            temperature=1.0,
            seed=5,
            max_tokens=12,
            n=3,
        )
        return [choice.message.content for choice in answer.choices]

    first = sample()
    assert len(set(first)) == 3
    assert sample() == first


def test_logprobs_are_told_of_every_token_and_sum_to_no_more_than_one(
    client: openai.OpenAI,
) -> None:
    answer = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=6,
        logprobs=True,
        top_logprobs=5,
    )
    choice = answer.choices[0]
    assert choice.logprobs is not None
    entries = choice.logprobs.content or []
    assert "".join(entry.token for entry in entries) == choice.message.content
    for entry in entries:
        assert len(entry.top_logprobs) == 5
        assert entry.top_logprobs[0].token == entry.token, "greedy takes the likeliest"
        assert 0 < sum(math.exp(top.logprob) for top in entry.top_logprobs) <= 1.001


def test_a_bias_bans_a_token(client: openai.OpenAI) -> None:
    def complete(**parameters: Any) -> openai.types.CompletionChoice:
        answer = client.completions.create(
            model="smollm2",
            prompt="The capital of France is",
            temperature=0,
            max_tokens=8,
            logprobs=1,
            **parameters,
        )
        choice: openai.types.CompletionChoice = answer.choices[0]
        return choice

    plain = complete()
    other = complete(logit_bias={str(find_token(plain)): -100})
    assert find_token(other) != find_token(plain)


def find_token(choice: openai.types.CompletionChoice) -> int:
    """The id of an answer's first token, by the model's own tokenizer."""
    assert choice.logprobs is not None
    assert choice.logprobs.tokens
    (token_id,) = load_tokenizer(Path(find_tokenizer())).encode(
        choice.logprobs.tokens[0], allow_special=False
    )
    return token_id


def test_what_the_engine_does_not_take_is_refused_by_name(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(
            model="smollm2",
            messages=[{"role": "user", "content": "hi"}],
            tools=[{"type": "function", "function": {"name": "find", "parameters": {}}}],
        )
    assert (refused.value.param, refused.value.code) == ("tools", "unsupported_parameter")
    assert "engine, 'paged'" in refused.value.message
    with pytest.raises(openai.NotFoundError, match="serves chat and completions only"):
        client.embeddings.create(model="smollm2", input="hi")


def test_ignore_eos_runs_to_the_limit(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=40,
        extra_body={"ignore_eos": True},
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 40
    assert answer.choices[0].finish_reason == "length"


def test_models_lists_what_is_served(client: openai.OpenAI) -> None:
    assert "smollm2" in [model.id for model in client.models.list()]
    assert client.models.retrieve("smollm2").id == "smollm2"


def test_errors_come_in_the_clients_own_types(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.chat.completions.create(
            model="smollm3", messages=[{"role": "user", "content": "hi"}]
        )
    assert unknown.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as too_long:
        client.completions.create(model="smollm2", prompt="word " * 9000, max_tokens=1)
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as wrong:
        client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": "hi"}], temperature=9
        )
    assert wrong.value.param == "temperature"
    assert wrong.value.response.headers["x-request-id"]


def test_every_answer_can_be_followed_by_its_request_id(
    client: openai.OpenAI, served: Served
) -> None:
    response = client.chat.completions.with_raw_response.create(
        model="smollm2",
        messages=[{"role": "user", "content": QUESTION}],
        temperature=0,
        max_tokens=4,
        extra_headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    )
    request_id = response.headers["x-request-id"]

    def found() -> httpx.Response | None:
        answer = httpx.get(f"{served.url}/api/v1/requests/{request_id}")
        return answer if answer.status_code == httpx.codes.OK else None

    detail = wait_for(found, 10, "the record to arrive").json()
    assert "0af7651916cd43dd8448eb211c80319c" in str(detail)
    page = httpx.get(f"{served.url}/requests/{request_id}")
    for phase in ("queue", "prefill", "decode", "delivery", "cleanup"):
        assert phase in page.text
