"""An endpoint of OpenAI's API that answers as a test asks, and a client of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from dataplane.engine import (
    EngineEvent,
    EngineRequest,
    SamplingParams,
)
from dataplane.openai_endpoint.client import EndpointClient
from pilothouse_openai.client import create_client
from pilothouse_openai.settings import OpenAISettings

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
