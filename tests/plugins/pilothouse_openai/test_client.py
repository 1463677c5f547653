"""The adapter against a real HTTP server that speaks, and misspeaks, the OpenAI protocol."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dataplane.engine import (
    EngineEvent,
    EngineRequest,
    EngineUnavailableError,
    SamplingParams,
)
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.openai_endpoint.chunks import ChunkReader
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_openai.client import create_client
from pilothouse_openai.settings import OpenAISettings, check_settings, parse_settings

TOOL_DELTAS: list[dict[str, Any]] = [
    {"role": "assistant", "reasoning_content": "Look it up."},
    {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "find", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]},
]

ODD = "one\u2028two\u2029three\u0085four"
"""What only a reader of text takes for line ends."""

FLOOD, BIG = 1500, 16 * 2**10 * "x"
"""Chunks, and the text of each: more than a queue and two sockets hold."""


class Endpoint:
    """An OpenAI-compatible server; the prompt's text chooses how it behaves."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.num_hung_up = 0
        self.num_flooded = 0
        self.listed: list[Any] = [{"id": "upstream-model", "max_model_len": 2048}]
        self.app = Starlette(
            routes=[
                Route("/v1/models", self.models),
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
            ]
        )

    async def models(self, request: Request) -> Response:
        return JSONResponse({"data": self.listed})

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        scene = body["messages"][0]["content"]
        if scene == "refuse":
            return JSONResponse({"error": {"message": "temperature is too hot"}}, status_code=400)
        if scene == "busy":
            return JSONResponse({"error": {"message": "come back later"}}, status_code=429)
        return StreamingResponse(self.stream(scene), media_type="text/event-stream")

    async def stream(self, scene: str) -> AsyncIterator[str]:
        def chunk(
            delta: dict[str, Any], finish_reason: str | None = None, index: int = 0, **more: Any
        ) -> str:
            choice = {"index": index, "delta": delta, "finish_reason": finish_reason, **more}
            return f"data: {json.dumps({'choices': [choice]})}\n\n"

        if scene == "call a tool":
            for delta in TOOL_DELTAS:
                yield chunk(delta)
            yield chunk({}, finish_reason="tool_calls")
            yield "data: [DONE]\n\n"
            return
        if scene == "two answers":
            for index, text in ((0, "yes"), (1, "no"), (1, "pe")):
                yield chunk({"content": text}, index=index)
            yield chunk({}, finish_reason="length", index=1)
            yield chunk({"content": "!"}, finish_reason="stop")
            usage = {"prompt_tokens": 11, "completion_tokens": 4}
            yield f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n"
            yield "data: [DONE]\n\n"
            return
        if scene == "another number":
            yield chunk({"content": "x"}, index=7)
            return
        if scene == "odd line ends":  # as written by who escapes nothing, between lines of CRLF
            content = {"choices": [{"index": 0, "delta": {"content": ODD}, "finish_reason": None}]}
            yield f"data: {json.dumps(content, ensure_ascii=False)}\r\n\r\n"
            yield chunk({}, finish_reason="stop")
            return
        yield chunk({"role": "assistant"})
        yield chunk({"content": "Par"})
        if scene == "flood":
            for self.num_flooded in range(FLOOD + 1):
                yield chunk({"content": BIG if self.num_flooded < FLOOD else ""})
        if scene == "forever":
            try:
                while True:
                    await asyncio.sleep(0.01)
                    yield chunk({"content": "."})
            finally:
                self.num_hung_up += 1
        if scene == "garbage":
            yield "data: {not json\n\n"
            return
        if scene == "not a choice":
            yield 'data: {"choices": ["surprise"]}\n\n'
            return
        if scene == "no end":
            return
        yield chunk({"content": "is"})
        yield chunk({}, finish_reason="stop")
        yield 'data: {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 2}}\n\n'
        yield "data: [DONE]\n\n"


@pytest.fixture
def endpoint() -> Iterator[tuple[Endpoint, str]]:
    served = Endpoint()
    server = uvicorn.Server(
        uvicorn.Config(served.app, port=0, log_level="error", ws="none", lifespan="off")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield served, f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()


def a_request(scene: str, num_sequences: int = 1, **body: Any) -> EngineRequest:
    return EngineRequest(
        request_id="r1",
        attempt=0,
        endpoint="/v1/chat/completions",
        sampling=SamplingParams(max_output_tokens=7, num_sequences=num_sequences),
        body={"model": "ours", "messages": [{"role": "user", "content": scene}], **body},
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


async def connected(url: str, **settings: Any) -> EndpointClient:
    client = create_client("attached-1", url, OpenAISettings(**settings))
    await client.connect()
    return client


async def events_of(client: EndpointClient, request: EngineRequest) -> list[EngineEvent]:
    return [event async for event in client.submit(request)]


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


@pytest.mark.parametrize("scene", ["garbage", "not a choice", "another number"])
def test_a_malformed_stream_makes_the_replica_unavailable_for_that_request(
    endpoint: tuple[Endpoint, str], scene: str
) -> None:
    async def scenario() -> None:
        client = await connected(endpoint[1])
        try:
            with pytest.raises(EngineUnavailableError, match="attached-1"):
                await events_of(client, a_request(scene))
        finally:
            await client.close()

    asyncio.run(scenario())


def test_an_endpoint_that_is_not_there_is_unavailable_with_the_reason() -> None:
    async def scenario() -> None:
        client = create_client("attached-1", "http://127.0.0.1:9", OpenAISettings())
        try:
            with pytest.raises(EngineUnavailableError, match="GET /v1/models"):
                await client.connect()
        finally:
            await client.close()

    asyncio.run(scenario())


def test_a_model_the_endpoint_does_not_serve_is_named_with_those_it_does(
    endpoint: tuple[Endpoint, str],
) -> None:
    async def scenario() -> None:
        client = create_client("attached-1", endpoint[1], OpenAISettings(model="other"))
        try:
            with pytest.raises(EngineUnavailableError, match="upstream-model"):
                await client.connect()
        finally:
            await client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("listed", [["surprise"], [None], [7]])
def test_a_list_of_models_that_is_none_makes_the_endpoint_unavailable(
    endpoint: tuple[Endpoint, str], listed: list[Any]
) -> None:
    endpoint[0].listed = listed

    async def scenario() -> None:
        client = create_client("attached-1", endpoint[1], OpenAISettings())
        try:
            with pytest.raises(EngineUnavailableError, match="GET /v1/models"):
                await client.connect()
        finally:
            await client.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("configured", "holds"), [(1024, 1024), (9000, 2048)])
def test_the_shorter_of_the_configured_and_the_endpoints_own_length_holds(
    endpoint: tuple[Endpoint, str], configured: int, holds: int
) -> None:
    async def scenario() -> int | None:
        client = await connected(endpoint[1], max_model_len=configured)
        await client.close()
        return client.capabilities.max_model_len

    assert asyncio.run(scenario()) == holds


@pytest.mark.parametrize("length", ["2048", -1, True, 0])
def test_a_length_that_is_no_count_is_none(endpoint: tuple[Endpoint, str], length: object) -> None:
    endpoint[0].listed = [{"id": "upstream-model", "max_model_len": length}]

    async def scenario() -> int | None:
        client = await connected(endpoint[1])
        await client.close()
        return client.capabilities.max_model_len

    assert asyncio.run(scenario()) is None


@pytest.mark.parametrize("count", ["eleven", None, -1, True, 1.5])
def test_a_usage_count_that_is_none_is_not_believed(count: object) -> None:
    reader = ChunkReader()
    assert not list(
        reader.read({"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": 2}})
    )
    assert (reader.num_prompt_tokens, reader.num_output_tokens) == (None, 2)


def test_an_unknown_setting_is_answered_with_the_nearest_valid_one() -> None:
    ((key, what),) = check_settings({"max_num_seq": 3})
    assert key == "max_num_seq"
    assert "max_num_seqs" in what
    with pytest.raises(ValueError, match=r"settings\.max_num_seq"):
        parse_settings({"max_num_seq": 3})


def test_a_key_is_read_from_the_environment_and_its_absence_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = OpenAISettings(api_key_env="ENGINE_KEY_UPSTREAM")
    monkeypatch.delenv("ENGINE_KEY_UPSTREAM", raising=False)
    with pytest.raises(ValueError, match="ENGINE_KEY_UPSTREAM"):
        settings.read_api_key()
    monkeypatch.setenv("ENGINE_KEY_UPSTREAM", "secret")
    assert settings.read_api_key() == "secret"
