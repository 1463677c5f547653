"""Asking an adapter what a test wants to know, against a replayed engine."""

import asyncio
from collections.abc import Callable
from typing import Any

from dataplane.engine import (
    EngineCapabilities,
    EngineEvent,
    EngineRequest,
    EngineStats,
    SamplingParams,
)
from dataplane.openai_endpoint.client import EndpointClient

CreateClient = Callable[[str], EndpointClient]
"""For a URL."""
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def a_chat(text: str, num_sequences: int = 1, **body: Any) -> EngineRequest:
    """A streamed chat of one turn."""
    return EngineRequest(
        request_id="r1",
        attempt=0,
        endpoint="/v1/chat/completions",
        sampling=SamplingParams(max_output_tokens=12, num_sequences=num_sequences),
        body={"model": "ours", "messages": [{"role": "user", "content": text}], **body},
        isolation_key="tenant-a",
        traceparent=TRACEPARENT,
    )


def events_of(create: CreateClient, url: str, request: EngineRequest) -> list[EngineEvent]:
    """Everything that the adapter tells of one request."""

    async def scenario() -> list[EngineEvent]:
        client = create(url)
        try:
            await client.connect()
            return [event async for event in client.submit(request)]
        finally:
            await client.close()

    return asyncio.run(scenario())


def text_of(events: list[EngineEvent]) -> str:
    """The whole answer."""
    return "".join(event.text or "" for event in events)


def capabilities_of(create: CreateClient, url: str) -> EngineCapabilities:
    """Once it has connected."""

    async def scenario() -> EngineCapabilities:
        client = create(url)
        try:
            await client.connect()
            return client.capabilities
        finally:
            await client.close()

    return asyncio.run(scenario())


def stats_of(create: CreateClient, url: str) -> EngineStats:
    """Its first."""

    async def scenario() -> EngineStats:
        client = create(url)
        try:
            await client.connect()
            return await client.stats()
        finally:
            await client.close()

    return asyncio.run(scenario())


def count_of(create: CreateClient, url: str, body: dict[str, Any]) -> int | None:
    """The tokens of a prompt, as the engine counts them."""

    async def scenario() -> int | None:
        client = create(url)
        try:
            await client.connect()
            return await client.count_prompt(body)
        finally:
            await client.close()

    return asyncio.run(scenario())
