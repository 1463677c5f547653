"""Servers that hang up: on a connection that was used before, or in the middle of an answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from dataplane.engine import EngineEvent, EngineStats, EngineUnavailableError
from dataplane.lifecycle import Disposition, EventKind
from dataplane.openai_endpoint.answer import Answer
from dataplane.openai_endpoint.http import EndpointHttp
from dataplane.openai_endpoint.upstream import Upstream
from pilothouse_openai.client import create_client
from pilothouse_openai.dialect import OpenAIDialect
from pilothouse_openai.settings import OpenAISettings
from tests.endpoint_transcripts.asking import a_chat, text_of

MODELS = json.dumps({"data": [{"id": "m"}]}).encode()
CHUNK = json.dumps({"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]})
STREAM = f"data: {CHUNK}\n\ndata: [DONE]\n\n".encode()

Say = Callable[[int], bytes | None]
"""For the number of a request on its connection; None: hang up without a word."""


asked_for: list[int] = []


def breaks_off(number: int) -> bytes:
    asked_for.append(number)
    return b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n" + STREAM[:20]


def ends_with_its_connection(number: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + STREAM.partition(b"data: [DONE]")[0]


def says_no_more(number: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n"


HANG_UP: tuple[Say, ...] = (breaks_off, ends_with_its_connection)


def plain(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def serving(answer: Say, ask: Callable[[str], Awaitable[None]]) -> None:
    connections: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(100):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            except asyncio.IncompleteReadError:
                break
            length = head.partition("content-length:")[2].partition("\r\n")[0]
            await reader.readexactly(int(length or 0))
            said = answer(number) if head.startswith("post") else plain(MODELS)
            if said is None:
                break
            writer.write(said)
            if answer in HANG_UP:
                await writer.drain()
                break
        writer.close()
        await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(asyncio.create_task(connected(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        await ask(f"http://127.0.0.1:{port}")
    finally:
        server.close()
        await asyncio.wait(connections)


def asked(answer: Say, times: int, **settings: Any) -> list[list[EngineEvent]]:
    found: list[list[EngineEvent]] = []

    async def ask(url: str) -> None:
        client = create_client("attached-1", url, OpenAISettings(**settings))
        try:
            await client.connect()
            while len(found) < times:
                found.append([event async for event in client.submit(a_chat("hello"))])
        finally:
            await client.close()

    asyncio.run(serving(answer, ask))
    return found


def test_a_request_that_meets_a_connection_which_was_hung_up_on_is_sent_on_a_new_one() -> None:
    """The list of models opened the connection, so that no request of ours is the first on it."""

    def only_the_first(number: int) -> bytes | None:
        return plain(STREAM) if number == 0 else None

    first, second = asked(only_the_first, times=2)
    for events in (first, second):
        assert text_of(events) == "hi"
        assert events[-1].disposition is Disposition.STOP


def test_a_server_that_hangs_up_without_a_word_on_a_new_connection_too_is_unavailable() -> None:
    with pytest.raises(EngineUnavailableError, match="disconnected"):
        asked(lambda number: None, times=1)


def test_an_answer_that_breaks_off_is_not_asked_for_again() -> None:
    asked_for.clear()
    with pytest.raises(EngineUnavailableError):
        asked(breaks_off, times=1)
    assert len(asked_for) == 1


def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    (events,) = asked(ends_with_its_connection, times=1)
    assert text_of(events) == "hi"
    assert events[-1].disposition is Disposition.STOP


def test_an_endpoint_that_says_no_more_is_given_up_after_its_silence() -> None:
    with pytest.raises(EngineUnavailableError, match=r"said nothing for 0\.2 s"):
        asked(says_no_more, times=1, read_timeout_seconds=0.2)


def test_an_announcement_before_the_answer_is_not_taken_for_it() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n"
    first, second = asked(lambda number: early + plain(STREAM), times=2)
    for events in (first, second):
        assert text_of(events) == "hi"
        assert events[-1].disposition is Disposition.STOP


def test_a_server_that_wants_another_protocol_is_unavailable() -> None:
    switches = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"
    with pytest.raises(EngineUnavailableError, match="another protocol"):
        asked(lambda number: switches, times=1)


def test_what_is_no_http_is_unavailable_and_not_read_on() -> None:
    with pytest.raises(EngineUnavailableError, match="answers no HTTP"):
        asked(lambda number: b"SSH-2.0-OpenSSH_9.2\r\n", times=1)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://no..name:1"])
def test_an_address_that_leads_nowhere_is_told_by_the_request_that_needed_it(url: str) -> None:
    async def scenario() -> None:
        settings = OpenAISettings(connect_timeout_seconds=5)
        listener = Answer("attached-1", OpenAIDialect(settings), num_sequences=1)
        upstream = Upstream(url, settings, {}, keeps_connections=True, tls=None)
        listener.exchange = upstream.post("/v1/chat/completions", {}, b"{}", listener)
        await listener.events.wait()
        with pytest.raises(EngineUnavailableError, match="cannot be reached"):
            listener.events.take()

    asyncio.run(scenario())


def test_a_request_that_was_cancelled_before_it_was_sent_is_not_sent() -> None:
    numbers: list[int] = []

    def answer(number: int) -> bytes | None:
        numbers.append(number)
        return plain(STREAM)

    async def ask(url: str) -> None:
        client = create_client("attached-1", url, OpenAISettings())
        await client.connect()
        told = []
        async for event in client.submit(a_chat("hello")):
            told.append(event)
            await client.cancel("r1", Disposition.CANCELLED)
        assert told[-1].disposition is Disposition.CANCELLED
        await client.close()

    asyncio.run(serving(answer, ask))
    assert numbers == []


def test_what_an_endpoint_did_not_answer_is_why_its_requests_are_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever finds it silent hangs up: that is no reason of its own."""
    why = "GET /health: no whole answer within 5 s"

    async def stats(_: OpenAIDialect, http: EndpointHttp) -> EngineStats:
        raise http.unavailable(why)

    monkeypatch.setattr(OpenAIDialect, "stats", stats)

    async def ask(url: str) -> None:
        client = create_client("attached-1", url, OpenAISettings())
        await client.connect()
        events = client.submit(a_chat("hello"))
        assert (await anext(events)).kind is EventKind.SCHEDULED
        rest = asyncio.create_task(collected(events))
        await asyncio.sleep(0)
        with pytest.raises(EngineUnavailableError):
            await client.stats()
        await client.close()
        with pytest.raises(EngineUnavailableError) as lost:
            await rest
        assert lost.value.why == why

    asyncio.run(serving(says_no_more, ask))


async def collected(events: AsyncIterator[EngineEvent]) -> list[EngineEvent]:
    return [event async for event in events]
