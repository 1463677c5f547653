"""A small HTTP/1.1 server side, for stubs that must cost next to nothing."""

import asyncio
from collections.abc import Callable

import httptools

_REASONS = {200: b"OK", 400: b"Bad Request", 404: b"Not Found"}


class HttpConnection(asyncio.Protocol):
    """Hands each whole request to `handle`, with the connection that it came by."""

    def __init__(self, handle: Callable[["HttpConnection"], None]) -> None:
        self._handle = handle
        self._parser = httptools.HttpRequestParser(self)
        self.method = b""
        self.path = b""
        self.body = b""
        self.on_lost: Callable[[], None] | None = None
        """Called when the client is gone."""

    # asyncio hands BaseTransport to every protocol, and uvloop's own are no subclass of it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.on_lost is not None:
            self.on_lost()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()

    def on_message_begin(self) -> None:
        self.path = self.body = b""

    def on_url(self, url: bytes) -> None:
        self.path += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.method = self._parser.get_method()
        self._handle(self)

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._transport.write(data)

    def answer(self, status: int, body: bytes) -> None:
        """A whole answer of JSON."""
        head = b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self.write(head % (status, _REASONS[status], len(body)) + body)

    def close(self) -> None:
        """Hang up once all is sent."""
        self._transport.close()
