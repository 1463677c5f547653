"""Answers of any size and shape: what is read of them is bounded."""

import asyncio
import gzip
from collections.abc import Awaitable, Callable

import pytest

from dataplane.clock import monotonic_clock
from dataplane.engine import EngineUnavailableError
from dataplane.openai_endpoint.http import AnswerUnreadableError, EndpointHttp
from pilothouse_openai.settings import OpenAISettings
from pilothouse_vllm.dialect import VllmDialect
from pilothouse_vllm.settings import VllmSettings

RUNNING = b'vllm:num_requests_running{engine="0"} 3.0\n'


def answering(
    path_answers: dict[str, bytes], ask: Callable[[EndpointHttp], Awaitable[None]]
) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
            writer.write(path_answers[path])
            await writer.drain()
            if path == "/drips":
                await reader.read()
        except ConnectionError:
            pass  # it was hung up on, which is what is asked for
        finally:
            writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        http = EndpointHttp("r-1", url, OpenAISettings())
        try:
            await ask(http)
        finally:
            await http.close()
            server.close()

    asyncio.run(scenario())


def page(body: bytes, *headers: str) -> bytes:
    head = "".join(f"{header}\r\n" for header in (*headers, f"content-length: {len(body)}"))
    return b"HTTP/1.1 200 OK\r\n" + head.encode() + b"connection: close\r\n\r\n" + body


ANSWERS = {
    "/long": page(b"x" * (9 * 2**20)),
    "/packed": page(gzip.compress(b"x" * 2**20), "content-encoding: gzip"),
    "/drips": b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nx",
    "/well": page(b"{}"),
}


@pytest.mark.parametrize(
    ("path", "why"), [("/long", "longer than 8 MiB"), ("/packed", r"packed \(gzip\)")]
)
def test_an_answer_that_is_too_long_or_packed_is_not_read_on(path: str, why: str) -> None:
    async def ask(http: EndpointHttp) -> None:
        with pytest.raises(AnswerUnreadableError, match=why):
            await http.get(path, 30)
        assert await http.find_json("/well", 30) == {}

    answering(ANSWERS, ask)


def test_an_answer_that_never_ends_is_given_up_in_time() -> None:
    async def ask(http: EndpointHttp) -> None:
        with pytest.raises(EngineUnavailableError, match=r"no whole answer within 0\.1 s"):
            await http.get("/drips", 0.1)

    answering(ANSWERS, ask)


@pytest.mark.parametrize("metrics", ["/long", "/packed"])
def test_an_endpoint_whose_metrics_cannot_be_read_is_no_worse_for_that(metrics: str) -> None:
    async def ask(http: EndpointHttp) -> None:
        stats = await VllmDialect(VllmSettings(), monotonic_clock).stats(http)
        assert stats.num_running is None

    answering({"/metrics": ANSWERS[metrics], "/health": page(b"")}, ask)
