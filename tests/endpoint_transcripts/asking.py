"""Asking an adapter what a test wants to know, against a replayed engine."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from dataplane.engine import (
    EngineCapabilities,
    EngineEvent,
    EngineRequest,
    EngineStats,
    SamplingParams,
)
from dataplane.openai_endpoint.client import EndpointClient
from tests.endpoint_transcripts.exchange import read_transcript
from tests.endpoint_transcripts.replay import Replay, replaying

S = TypeVar("S")
T = TypeVar("T")

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


def text_of(events: list[EngineEvent]) -> str:
    """The whole answer."""
    return "".join(event.text or "" for event in events)


@dataclass(frozen=True, slots=True)
class AttachedServer:
    """A replayed engine, and the adapter that it is asked through."""

    replay: Replay
    create: Callable[[], EndpointClient]

    def ask(self, question: Callable[[EndpointClient], Awaitable[T]]) -> T:
        """By a client of its own, which has connected and is closed then."""

        async def scenario() -> T:
            client = self.create()
            try:
                await client.connect()
                return await question(client)
            finally:
                await client.close()

        return asyncio.run(scenario())

    def events(self, *requests: EngineRequest) -> list[EngineEvent]:
        """Everything that the adapter tells of requests, one after the other."""

        async def submit(client: EndpointClient) -> list[EngineEvent]:
            return [event for each in requests async for event in client.submit(each)]

        return self.ask(submit)

    def capabilities(self) -> EngineCapabilities:
        """Once it has connected."""

        async def look(client: EndpointClient) -> EngineCapabilities:
            return client.capabilities

        return self.ask(look)

    def stats(self) -> EngineStats:
        """Its first."""
        return self.ask(lambda client: client.stats())

    def count(self, body: dict[str, Any]) -> int | None:
        """The tokens of a prompt, as the engine counts them."""
        return self.ask(lambda client: client.count_prompt(body))


@contextlib.contextmanager
def attaching(
    transcript: str, create: Callable[[str, str, S], EndpointClient], settings: S
) -> Iterator[AttachedServer]:
    """What is known of one engine answers, and is asked through its adapter."""
    with replaying(read_transcript(transcript)) as (replay, url):
        yield AttachedServer(replay, lambda: create("attached-1", url, settings))
