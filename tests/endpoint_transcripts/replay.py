"""A server that answers as a foreign engine once did: each exchange of a transcript, byte by byte.

What was never asked is answered 418, so that a test cannot pass by an answer that nobody gave.
"""

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.endpoint_transcripts.exchange import Exchange, Transcript, what_is_asked

HANGS = "Never end."
"""Asked for this, it streams the first chunks of its first answer and then nothing."""


class Replay:
    """Serves one transcript, and remembers what it was asked."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.queries: list[tuple[str, str]] = []
        """(path, what stands behind its question mark)."""
        self.ports: list[int] = []
        """That bodies came from: one for each connection."""
        self.withheld: set[str] = set()
        """Paths that are answered 404, as by a server that was started without them."""
        self.num_hung_up = 0
        self.app = Starlette(routes=[Route("/{path:path}", self.answer, methods=["GET", "POST"])])

    async def answer(self, request: Request) -> Response:
        """The exchange that was recorded for this path and these words."""
        raw = await request.body()
        body = json.loads(raw) if raw else None
        self.paths.append(request.url.path)
        self.queries.append((request.url.path, request.url.query))
        if request.url.path in self.withheld:
            return PlainTextResponse("Not Found", status_code=404)
        if body is not None:
            self.bodies.append(body)
            self.headers.append(dict(request.headers))
            self.ports.append(request.client.port if request.client else 0)
        if what_is_asked(body) == ("chat", HANGS):
            return StreamingResponse(self._hang(), media_type="text/event-stream")
        found = self._find(request.method, request.url.path, what_is_asked(body))
        if found is None:
            return PlainTextResponse(f"never asked: {request.url.path}", status_code=418)
        if "event-stream" in found.content_type:
            return StreamingResponse(
                _pieces(found.answer), found.status, media_type=found.content_type
            )
        return Response(found.answer, found.status, media_type=found.content_type or None)

    def _find(self, method: str, path: str, asked: tuple[str, str]) -> Exchange | None:
        for each in self.transcript.exchanges:
            if (each.method, each.path, what_is_asked(each.body)) == (method, path, asked):
                return each
        return None

    async def _hang(self) -> AsyncIterator[bytes]:
        stream = next(e for e in self.transcript.exchanges if "event-stream" in e.content_type)
        for piece in stream.answer.split("\n\n")[:3]:
            yield f"{piece}\n\n".encode()
        try:
            await asyncio.sleep(60)
        finally:
            self.num_hung_up += 1


async def _pieces(answer: str) -> AsyncIterator[bytes]:
    for event in answer.split("\n\n"):
        if event:
            yield f"{event}\n\n".encode()


@contextlib.contextmanager
def replaying(transcript: Transcript) -> Iterator[tuple[Replay, str]]:
    """Serve it on the loopback until the block ends; with its URL."""
    replay = Replay(transcript)
    config = uvicorn.Config(replay.app, port=0, log_level="error", ws="none", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield replay, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join()
