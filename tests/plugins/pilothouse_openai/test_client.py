"""The adapter against a real HTTP server that speaks, and misspeaks, the OpenAI protocol."""

import asyncio
from typing import Any

import pytest

from dataplane.engine import (
    EngineEvent,
    EngineRequest,
)
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.openai_endpoint.chunks import ChunkReader
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_openai.settings import check_settings
from tests.plugins.pilothouse_openai.scripted_endpoint import (
    BIG,
    FLOOD,
    ODD,
    TOOL_DELTAS,
    Endpoint,
    a_request,
    connected,
    events_of,
)


def test_a_stream_becomes_events_whose_times_are_left_to_the_gateway(
    endpoint: tuple[Endpoint, str],
) -> None:
    async def scenario() -> list[EngineEvent]:
        client = await connected(endpoint[1])
        events = await events_of(client, a_request("hello"))
        await client.close()
        return events

    events = asyncio.run(scenario())
    assert [event.kind for event in events] == [
        EventKind.SCHEDULED,
        EventKind.FIRST_TOKEN,
        EventKind.TOKENS,
        EventKind.FINISHED,
    ]
    assert "".join(event.text or "" for event in events) == "Paris"
    assert all(event.offset is None for event in events)
    assert events[-1].disposition is Disposition.STOP
    assert (events[-1].num_prompt_tokens, events[-1].num_output_tokens) == (11, 2)


def test_the_body_is_forwarded_with_the_endpoints_model_name_and_one_token_limit(
    endpoint: tuple[Endpoint, str],
) -> None:
    async def scenario() -> None:
        client = await connected(endpoint[1])
        await events_of(client, a_request("hello", stop=["x"], max_completion_tokens=9))
        await client.close()

    asyncio.run(scenario())
    body = endpoint[0].bodies[0]
    assert body["model"] == "upstream-model"
    assert body["stop"] == ["x"]
    assert body["max_tokens"] == 7
    assert "max_completion_tokens" not in body
    assert body["stream"] is True
    assert endpoint[0].headers[0]["traceparent"].startswith("00-0af7651916cd43dd8448eb211c80319c")


@pytest.mark.parametrize("settings", [{"parameters": []}, {"parameters": ["top_k", "user"]}])
def test_only_what_every_endpoint_or_this_one_takes_is_forwarded(
    endpoint: tuple[Endpoint, str], settings: dict[str, list[str]]
) -> None:
    base: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "seed": 3, "stop": ["x"]}
    others: dict[str, Any] = {
        "top_k": 0,
        "repetition_penalty": 1,
        "ignore_eos": False,
        "user": "ana",
        "n": 1,
    }

    async def scenario() -> None:
        client = await connected(endpoint[1], **settings)
        await events_of(client, a_request("hello", **base, **others, max_completion_tokens=9))
        await client.close()

    asyncio.run(scenario())
    always = {"model", "messages", "max_tokens", "stream", "stream_options"}
    assert endpoint[0].bodies[0].keys() == always | base.keys() | set(settings["parameters"])


def test_what_the_endpoint_cannot_show_is_declared(endpoint: tuple[Endpoint, str]) -> None:
    async def scenario() -> EndpointClient:
        client = await connected(endpoint[1])
        await client.close()
        return client

    capabilities = asyncio.run(scenario()).capabilities
    assert capabilities.prefill is Observability.INFERRED
    assert capabilities.cleanup is Observability.UNOBSERVABLE
    assert capabilities.max_model_len == 2048
    assert "ignore_eos" not in capabilities.parameters


def test_a_cancel_ends_the_events_and_hangs_up_on_the_endpoint(
    endpoint: tuple[Endpoint, str],
) -> None:
    async def scenario() -> list[EngineEvent]:
        client = await connected(endpoint[1])
        events: list[EngineEvent] = []
        async for event in client.submit(a_request("forever")):
            events.append(event)
            if event.kind is EventKind.FIRST_TOKEN:
                await client.cancel("r1", Disposition.CANCELLED)
                await client.cancel("r1", Disposition.CANCELLED)
        for _ in range(500):
            if endpoint[0].num_hung_up:
                break
            await asyncio.sleep(0.01)
        await client.close()
        return events

    events = asyncio.run(scenario())
    assert events[-1].disposition is Disposition.CANCELLED
    assert endpoint[0].num_hung_up == 1


@pytest.mark.parametrize(("scene", "status_code"), [("refuse", 400), ("busy", 503)])
def test_a_refusal_ends_the_request_with_the_status_the_caller_should_see(
    endpoint: tuple[Endpoint, str], scene: str, status_code: int
) -> None:
    async def scenario() -> list[EngineEvent]:
        client = await connected(endpoint[1])
        events = await events_of(client, a_request(scene))
        await client.close()
        return events

    last = asyncio.run(scenario())[-1]
    assert last.disposition is Disposition.ERROR
    assert last.status_code == status_code
    assert last.reason is not None


def test_what_is_not_taken_is_not_read_from_the_endpoint(endpoint: tuple[Endpoint, str]) -> None:
    async def scenario() -> tuple[int, int]:
        client = await connected(endpoint[1])
        stream = client.submit(a_request("flood"))
        async for event in stream:
            if event.kind is EventKind.FIRST_TOKEN:
                break
        sent = -1
        while sent != endpoint[0].num_flooded:
            sent = endpoint[0].num_flooded
            await asyncio.sleep(0.1)
        rest = [event async for event in stream]
        await client.close()
        return sent, sum(len(event.text or "") for event in rest)

    sent, num_chars = asyncio.run(scenario())
    assert sent < FLOOD  # its connection is full
    assert num_chars == FLOOD * len(BIG) + len("is")


def test_a_stream_that_ends_without_a_reason_is_an_error_not_a_stop(
    endpoint: tuple[Endpoint, str],
) -> None:
    async def scenario() -> list[EngineEvent]:
        client = await connected(endpoint[1])
        events = await events_of(client, a_request("no end"))
        await client.close()
        return events

    last = asyncio.run(scenario())[-1]
    assert last.disposition is Disposition.ERROR
    assert last.status_code == 502


def test_a_line_separator_inside_an_answer_ends_no_line(endpoint: tuple[Endpoint, str]) -> None:
    events = told(endpoint, a_request("odd line ends"))
    assert "".join(event.text or "" for event in events) == ODD
    assert events[-1].disposition is Disposition.STOP


def told(endpoint: tuple[Endpoint, str], request: EngineRequest) -> list[EngineEvent]:
    """Every event of one request."""

    async def scenario() -> list[EngineEvent]:
        client = await connected(endpoint[1])
        try:
            return await events_of(client, request)
        finally:
            await client.close()

    return asyncio.run(scenario())


def test_tool_calls_pass_through_as_the_endpoint_wrote_them(
    endpoint: tuple[Endpoint, str],
) -> None:
    tools = [{"type": "function", "function": {"name": "find"}}]
    events = told(endpoint, a_request("call a tool", tools=tools, tool_choice="auto"))
    assert endpoint[0].bodies[0]["tools"] == tools
    deltas = [event.delta for event in events if event.delta]
    assert deltas == [{"reasoning_content": "Look it up."}, *TOOL_DELTAS[1:]]
    assert [event.kind for event in events[1:3]] == [EventKind.FIRST_TOKEN, EventKind.TOKENS]
    last = events[-1]
    assert (last.disposition, last.finish_reason) == (Disposition.STOP, "tool_calls")


def test_two_answers_are_told_apart_and_each_ends_once(endpoint: tuple[Endpoint, str]) -> None:
    events = told(endpoint, a_request("two answers", num_sequences=2, n=2))
    assert endpoint[0].bodies[0]["n"] == 2
    texts = {0: "", 1: ""}
    for event in events:
        texts[event.sequence] += event.text or ""
    assert texts == {0: "yes!", 1: "nope"}
    first, last = (event for event in events if event.kind is EventKind.FINISHED)
    assert (first.sequence, first.disposition) == (1, Disposition.LENGTH)
    assert (last.sequence, last.disposition, last.num_output_tokens) == (0, Disposition.STOP, 4)


def test_logprobs_of_a_chat_are_told_token_by_token() -> None:
    entry = {"token": "hi", "logprob": -0.25, "bytes": [104, 105]}
    said = {"content": [entry | {"top_logprobs": [entry]}, {"token": 5}]}
    choice = {"index": 0, "delta": {"content": "hi"}, "logprobs": said}
    (event,) = ChunkReader().read({"choices": [choice]})
    (logprob,) = event.logprobs
    assert (logprob.token, logprob.logprob, logprob.utf8) == ("hi", -0.25, b"hi")
    assert [top.token for top in logprob.top] == ["hi"]


def test_logprobs_of_a_completion_are_told_from_columns() -> None:
    said = {
        "tokens": ["a", "b"],
        "token_logprobs": [-1.0, -2.0],
        "top_logprobs": [{"a": -1.0, "c": -3.0}, None],
    }
    (event,) = ChunkReader().read({"choices": [{"index": 0, "text": "ab", "logprobs": said}]})
    assert [(entry.token, entry.logprob) for entry in event.logprobs] == [("a", -1.0), ("b", -2.0)]
    assert [top.token for top in event.logprobs[0].top] == ["c"]
    assert event.num_tokens == 2


def test_what_the_endpoint_takes_is_a_setting(endpoint: tuple[Endpoint, str]) -> None:
    async def taken(**settings: Any) -> frozenset[str]:
        client = await connected(endpoint[1], **settings)
        await client.close()
        return client.capabilities.parameters

    usual = asyncio.run(taken())
    assert {"tools", "n", "response_format"} <= usual
    assert "reasoning_effort" not in usual
    named = asyncio.run(taken(parameters=["reasoning_effort"], ignore_eos=True))
    assert named == {"reasoning_effort", "ignore_eos"}
    ((key, _),) = check_settings({"parameters": ["no name"]})
    assert key == "parameters.0"
