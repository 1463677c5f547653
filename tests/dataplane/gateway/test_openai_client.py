"""The official client, unmodified, against a real gateway."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.dataplane.gateway.running_gateway import (
    MODEL,
    RunningGateway,
    add_replica,
    deployment,
    find_tokenizer,
    running_gateway,
    snapshot,
)
from tests.dataplane.gateway.scripted_engine import WITH_TOOLS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

TOOL_MODEL = "handy"
TOOLS: Any = [{"type": "function", "function": {"name": "find", "parameters": {}}}]
TOOL_DELTAS = (
    {
        "tool_calls": [
            {
                "index": 0,
                "id": "c1",
                "type": "function",
                "function": {"name": "find", "arguments": ""},
            }
        ]
    },
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]},
)


@pytest.fixture(scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    add_replica("a")
    add_replica("tools", capabilities=WITH_TOOLS, tool_deltas=TOOL_DELTAS)
    served = snapshot(
        deployment("a", tokenizer=find_tokenizer(), created_at_unix=1700000000),
        deployment("tools", name="tools", model_name=TOOL_MODEL),
    )
    state_dir: Path = tmp_path_factory.mktemp("gateway")
    async with running_gateway(state_dir, served) as running:
        yield running
        await running.settle()


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=f"{gateway.url}/v1", api_key="any", max_retries=0
    ) as client:
        yield client


async def test_a_chat_is_answered_with_text_finish_reason_and_usage(
    client: openai.AsyncOpenAI,
) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Say something."}], max_tokens=3
    )
    assert answer.choices[0].message.content == "w0 w1 w2 "
    assert answer.choices[0].message.role == "assistant"
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    # ChatML around a default system turn and this one: counted by the model's own template.
    assert answer.usage.prompt_tokens == 33
    assert answer.usage.total_tokens == 36
    assert answer.model == MODEL
    assert answer.system_fingerprint == "tiny@1"


async def test_a_chat_streams_its_role_its_text_its_end_and_its_usage(
    client: openai.AsyncOpenAI,
) -> None:
    stream = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": [{"type": "text", "text": "Say something."}]}],
        max_completion_tokens=4,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert choices[0].delta.role == "assistant"
    assert "".join(choice.delta.content or "" for choice in choices) == "w0 w1 w2 w3 "
    assert [choice.finish_reason for choice in choices[-2:]] == [None, "length"]
    assert not chunks[-1].choices
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 4
    assert len({chunk.id for chunk in chunks}) == 1


async def test_each_chunk_tells_the_usage_so_far_where_a_client_of_vllm_asks_for_it(
    client: openai.AsyncOpenAI,
) -> None:
    stream = await client.completions.create(
        model=MODEL,
        prompt="one two",
        max_tokens=4,
        stream=True,
        extra_body={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    )
    usages = [chunk.usage async for chunk in stream]
    counts = [usage.completion_tokens for usage in usages if usage is not None]
    assert len(counts) == len(usages)
    assert counts == sorted(counts)
    assert counts[-1] == 4
    assert all(usage.prompt_tokens == 2 for usage in usages if usage is not None)


@pytest.mark.parametrize("prompt", ["one two", ["one two"], [504, 1025]])
async def test_a_completion_takes_text_a_list_of_one_text_or_token_ids(
    client: openai.AsyncOpenAI, prompt: str | list[str] | list[int]
) -> None:
    answer = await client.completions.create(model=MODEL, prompt=prompt, max_tokens=2)
    assert answer.choices[0].text == "w0 w1 "
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 2


async def test_a_completion_streams(client: openai.AsyncOpenAI) -> None:
    stream = await client.completions.create(
        model=MODEL, prompt="one two", max_tokens=3, stream=True
    )
    chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].text for chunk in chunks) == "w0 w1 w2 "
    assert chunks[-1].choices[0].finish_reason == "length"


async def test_without_a_limit_a_chat_may_fill_the_model(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "Go on."}]
    )
    assert answer.usage is not None
    assert answer.usage.total_tokens == 512


async def test_without_a_limit_a_completion_has_16_tokens(client: openai.AsyncOpenAI) -> None:
    answer = await client.completions.create(model=MODEL, prompt="one two")
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


@pytest.mark.parametrize("stream", [False, True])
async def test_several_answers_share_one_prompt_and_one_usage(
    client: openai.AsyncOpenAI, stream: bool
) -> None:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Say something."}],
        "max_tokens": 4,
        "n": 3,
    }
    texts: dict[int, str] = {}
    reasons: dict[int, str] = {}
    if stream:
        order: list[int] = []
        usages = []
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
        async for chunk in await client.chat.completions.create(**asked):
            usages += [chunk.usage] if chunk.usage else []
            for choice in chunk.choices:
                texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
                order += [choice.index] if choice.delta.content else []
                if choice.finish_reason:
                    assert choice.index not in reasons
                    reasons[choice.index] = choice.finish_reason
        (usage,) = usages
        assert order != sorted(order), "the answers came one after another"
    else:
        answer = await client.chat.completions.create(**asked)
        assert [choice.index for choice in answer.choices] == [0, 1, 2]
        texts = {choice.index: choice.message.content for choice in answer.choices}
        reasons = {choice.index: choice.finish_reason for choice in answer.choices}
        usage = answer.usage
    assert texts == {0: "w0 w1 w2 w3 ", 1: "1w0 1w1 1w2 ", 2: "2w0 2w1 "}
    assert reasons == {0: "length", 1: "stop", 2: "stop"}
    assert (usage.prompt_tokens, usage.completion_tokens) == (33, 9)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chat_tells_logprobs_token_by_token(
    client: openai.AsyncOpenAI, stream: bool
) -> None:
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Say something."}],
        "max_tokens": 2,
        "logprobs": True,
        "top_logprobs": 2,
        "stream": stream,
    }
    answer = await client.chat.completions.create(**asked)
    if stream:
        told = [c.choices[0].logprobs async for c in answer if c.choices[0].logprobs]
        entries = [entry for logprobs in told for entry in logprobs.content]
    else:
        entries = answer.choices[0].logprobs.content
    assert [entry.token for entry in entries] == ["w0 ", "w1 "]
    assert entries[0].logprob == -0.5
    assert bytes(entries[0].bytes) == b"w0 "
    assert [(top.token, top.logprob) for top in entries[0].top_logprobs] == [
        ("w0 ", -0.5),
        ("no", -9.0),
    ]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion_tells_logprobs_in_columns(
    client: openai.AsyncOpenAI, stream: bool
) -> None:
    asked: dict[str, Any] = {
        "model": MODEL,
        "prompt": "one two",
        "max_tokens": 3,
        "logprobs": 1,
        "stream": stream,
    }
    answer = await client.completions.create(**asked)
    told = (
        [c.choices[0].logprobs async for c in answer if c.choices[0].logprobs]
        if stream
        else [answer.choices[0].logprobs]
    )
    assert [token for columns in told for token in columns.tokens] == ["w0 ", "w1 ", "w2 "]
    assert [offset for columns in told for offset in columns.text_offset] == [0, 3, 6]
    assert told[0].top_logprobs[0] == {"w0 ": -0.5}
    assert told[0].token_logprobs[0] == -0.5


async def test_an_answer_without_the_wish_tells_no_logprobs(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "x"}], max_tokens=1
    )
    assert answer.choices[0].logprobs is None


async def test_a_tool_call_is_put_together_for_a_whole_answer(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model=TOOL_MODEL, messages=[{"role": "user", "content": "Where?"}], tools=TOOLS
    )
    (choice,) = answer.choices
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    assert choice.message.tool_calls is not None
    (call,) = choice.message.tool_calls
    assert call.type == "function"
    assert (call.id, call.function.name, call.function.arguments) == (
        "c1",
        "find",
        '{"city":"Paris"}',
    )
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


async def test_a_tool_call_streams_delta_by_delta(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model=TOOL_MODEL, messages=[{"role": "user", "content": "Where?"}], tools=TOOLS, stream=True
    )
    choices = [chunk.choices[0] async for chunk in stream]
    calls = [choice.delta.tool_calls[0] for choice in choices if choice.delta.tool_calls]
    assert [call.function.arguments for call in calls if call.function] == [
        "",
        '{"city":',
        '"Paris"}',
    ]
    assert calls[0].id == "c1"
    assert choices[-1].finish_reason == "tool_calls"


async def test_turns_of_tools_are_for_an_engine_that_takes_tools(
    client: openai.AsyncOpenAI,
) -> None:
    turns: Any = [
        {"role": "user", "content": "Where?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Paris"},
    ]
    answer = await client.chat.completions.create(model=TOOL_MODEL, messages=turns, max_tokens=1)
    assert answer.choices[0].message.content == "w0 "
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model=MODEL, messages=turns)
    assert refused.value.param == "messages.1.tool_calls"


@pytest.mark.parametrize(
    ("turn", "kind", "param"),
    [
        ({"role": "tool", "tool_call_id": "c1", "content": "x"}, "of role 'tool'", "role"),
        ({"role": "function", "name": "f", "content": "x"}, "of role 'function'", "role"),
        (
            {"role": "assistant", "tool_calls": [{"id": "c1"}]},
            "with 'tool_calls'",
            "tool_calls",
        ),
        (
            {"role": "assistant", "function_call": {"name": "f"}},
            "with 'function_call'",
            "function_call",
        ),
    ],
)
async def test_a_refused_turn_of_tools_is_told_by_what_was_sent(
    client: openai.AsyncOpenAI, turn: Any, kind: str, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await client.chat.completions.create(model=MODEL, messages=[turn])
    assert refused.value.param == f"messages.0.{param}"
    assert refused.value.code == "unsupported_parameter"
    assert f"Messages {kind} need an engine that takes tools" in refused.value.message
    assert "'tools' is not supported" not in refused.value.message


async def test_models_are_listed_and_found_by_name(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == [MODEL, TOOL_MODEL]
    model = await client.models.retrieve(MODEL)
    assert (model.id, model.created, model.owned_by) == (MODEL, 1700000000, "pilothouse")
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("nobody")


async def test_errors_arrive_as_the_clients_own_exceptions(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        await client.completions.create(model="nobody", prompt="x")
    assert unknown.value.code == "model_not_found"
    assert unknown.value.param == "model"
    with pytest.raises(openai.BadRequestError) as too_long:
        await client.completions.create(model=MODEL, prompt="word " * 600)
    assert too_long.value.code == "context_length_exceeded"
    with pytest.raises(openai.BadRequestError) as unsupported:
        await client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "x"}], presence_penalty=1
        )
    assert unsupported.value.param == "presence_penalty"
    assert unsupported.value.request_id is not None
