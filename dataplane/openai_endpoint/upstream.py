"""HTTP/1.1 connections that carry streams, at the cost of a callback for each piece.

An answer of an engine is hundreds of small pieces, and there are many answers at once: a task that
is woken, and a client library's layers, for each of them cost several times what all the rest of
their way through a gateway does. So a connection parses what it is handed, where it is handed it,
and tells its listener.

A connection is used again where both sides want that. One that turns out to have been hung up on
before a word of an answer came says nothing about the endpoint: the request goes out again, on a
new one.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

import httptools

from dataplane.openai_endpoint.settings import EndpointSettings

_IDLE_SECONDS = 2.0
"""Servers hang up on idle connections after five seconds; one that is used at that moment is lost
with its request."""
_ENDING_SECONDS = 1.0
"""How long an answer that is over may take to end its message; then its connection is given up."""
_MAX_IDLE = 256
_FIRST_FINAL_STATUS = 200
_LENGTHS = (b"content-length", b"transfer-encoding")


class Listener(Protocol):
    """Who an answer is told to. After `ended` or `lost` nothing more comes."""

    def status(self, code: int) -> None:
        """It begins."""
        ...

    def body(self, data: bytes) -> None:
        """A piece of it."""
        ...

    def ended(self) -> None:
        """It is complete."""
        ...

    def lost(self, why: str) -> None:
        """It will not be complete."""
        ...


class Exchange:
    """One request and its answer, on whatever connection."""

    def __init__(self, pool: "Upstream", request: bytes, listener: Listener) -> None:
        self._pool = pool
        self._request = request
        self._listener: Listener | None = listener
        self._connection: _Connection | None = None
        self._starting: asyncio.Task[None] | None = None
        self._is_paused = False

    def start(self, is_fresh: bool = False) -> None:
        """Send it, on a connection that is idle if there is one."""
        connection = None if is_fresh else self._pool.take_idle()
        if connection is None:
            self._starting = asyncio.create_task(self._open())
            self._starting.add_done_callback(self._note_bug)
        else:
            self._begin(connection)

    def pause(self) -> None:
        """Read no more for now: the endpoint finds its connection full."""
        self._is_paused = True
        if self._connection is not None:
            self._connection.pause()

    def resume(self) -> None:
        """Read on."""
        self._is_paused = False
        if self._connection is not None:
            self._connection.resume()

    def let_go(self) -> None:
        """The answer is over; what remains of its message is waited for, and not told."""
        self._listener = None
        if self._connection is not None:
            self._connection.finish_soon()
        else:
            self.hang_up()

    def hang_up(self) -> None:
        """End it now: an engine stops computing for who is gone."""
        self._listener = None
        if self._starting is not None:
            self._starting.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    async def _open(self) -> None:
        try:
            connection = await self._pool.open()
        except (OSError, TimeoutError, UnicodeError) as error:
            self.lost(f"it cannot be reached: {str(error) or type(error).__name__}")
            return
        if self._listener is None:
            connection.abort()
        else:
            self._begin(connection)

    def _note_bug(self, task: asyncio.Task[None]) -> None:
        """What nobody foresaw must not leave the request waiting."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.lost(f"connecting to it failed: {error!r}")

    def _begin(self, connection: "_Connection") -> None:
        self._connection = connection
        connection.send(self._request, self)
        if self._is_paused:
            connection.pause()

    def status(self, code: int) -> None:
        """Told by its connection, as are those below."""
        if self._listener is not None:
            self._listener.status(code)

    def body(self, data: bytes) -> None:
        if self._listener is not None:
            self._listener.body(data)

    def ended(self) -> None:
        self._connection = None
        if self._listener is not None:
            self._listener.ended()

    def unheard(self) -> None:
        """It was hung up on without a word, on a connection that had been used before."""
        self._connection = None
        if self._listener is not None:
            self.start(is_fresh=True)

    def lost(self, why: str) -> None:
        self._connection = None
        if self._listener is not None:
            self._listener.lost(why)


class Upstream:
    """The connections to one endpoint. One event loop owns it."""

    def __init__(
        self,
        url: str,
        settings: EndpointSettings,
        headers: Mapping[str, str],
        keeps_connections: bool,
        tls: ssl.SSLContext | None,
    ) -> None:
        """`url` without /v1; `tls` for https alone."""
        parts = urlsplit(url)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = tls if parts.scheme == "https" else None
        self._path = parts.path.rstrip("/")
        self._settings = settings
        self._keeps_connections = keeps_connections
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        shown = {
            "host": parts.netloc.rpartition("@")[2],
            "accept": "text/event-stream, application/json",
            "content-type": "application/json",
            "connection": "keep-alive" if keeps_connections else "close",
            **headers,
        }
        self._head = _lines(shown)

    def post(
        self, path: str, headers: Mapping[str, str], body: bytes, listener: Listener
    ) -> Exchange:
        """Begin a request; its answer comes to `listener`, never before this returns."""
        request = b"".join(
            (
                f"POST {self._path}{path} HTTP/1.1\r\n".encode(),
                self._head,
                _lines(headers),
                b"content-length: %d\r\n\r\n" % len(body),
                body,
            )
        )
        exchange = Exchange(self, request, listener)
        exchange.start()
        return exchange

    def take_idle(self) -> "_Connection | None":
        """The one that was used last, and is not hung up on yet as far as is known."""
        return self._idle.pop() if self._idle else None

    async def open(self) -> "_Connection":
        """A new one. Raises OSError and TimeoutError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._settings.connect_timeout_seconds):
            _, connection = await loop.create_connection(
                lambda: _Connection(self, loop, self._settings.read_timeout_seconds),
                self._host,
                self._port,
                ssl=self._tls,
            )
        self._open.add(connection)
        return connection

    def put_back(self, connection: "_Connection") -> bool:
        """Whether it is kept for another request."""
        if not self._keeps_connections or len(self._idle) >= _MAX_IDLE:
            return False
        self._idle.append(connection)
        return True

    def forget(self, connection: "_Connection") -> None:
        """It is closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    def close(self) -> None:
        """Hang up on all."""
        for connection in list(self._open):
            connection.abort()


class _Connection(asyncio.Protocol):
    """One of an Upstream's. It has an exchange, or is idle."""

    def __init__(
        self, pool: Upstream, loop: asyncio.AbstractEventLoop, silence_seconds: float
    ) -> None:
        self._pool = pool
        self._loop = loop
        self._silence_seconds = silence_seconds
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._heard_at = 0.0
        self._num_answers = 0
        self._has_answer_begun = False
        self._has_length = False
        self._is_paused = False

    # asyncio hands BaseTransport to every protocol, and uvloop's own are no subclass of it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def send(self, request: bytes, exchange: Exchange) -> None:
        """Give it an exchange."""
        assert self._transport is not None
        self._exchange = exchange
        self._has_answer_begun = self._has_length = False
        self._parser = httptools.HttpResponseParser(self)
        self._heard_at = self._loop.time()
        self._set_timer(self._silence_seconds, self._check_silence)
        self._transport.write(request)

    def pause(self) -> None:
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and self._is_paused:
            self._is_paused = False
            self._heard_at = self._loop.time()
            self._transport.resume_reading()

    def finish_soon(self) -> None:
        """Its answer is over, and the message should be at once."""
        self.resume()
        self._set_timer(_ENDING_SECONDS, self.abort)

    def abort(self) -> None:
        """Hang up without waiting for what is unsent."""
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        if self._exchange is None:
            self.abort()  # an idle connection has nothing to say
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._lose("it wants to speak another protocol, which nobody asked for")
        except httptools.HttpParserError as error:
            self._lose(f"it answers no HTTP: {error}")

    def eof_received(self) -> None:
        """An answer without a length ends with its connection, which the parser cannot see."""
        if self._exchange is not None and self._has_answer_begun and not self._has_length:
            self._finish_answer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self._pool.forget(self)
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if self._num_answers and not self._has_answer_begun:
            exchange.unheard()
        else:
            exchange.lost(str(exc) if exc else _hung_up(self._has_answer_begun))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, as are those below."""
        if name.lower() in _LENGTHS:
            self._has_length = True

    def on_headers_complete(self) -> None:
        if self._is_informational:
            return
        self._has_answer_begun = True
        if self._exchange is not None:
            self._exchange.status(self._parser.get_status_code())

    def on_body(self, data: bytes) -> None:
        if self._exchange is not None:
            self._exchange.body(data)

    @property
    def _is_informational(self) -> bool:
        """What is parsed now only announces an answer (100, 103)."""
        return int(self._parser.get_status_code()) < _FIRST_FINAL_STATUS

    def on_message_complete(self) -> None:
        if self._is_informational:
            self._has_length = False
            return
        self._finish_answer()

    def _finish_answer(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        self._num_answers += 1
        self.resume()
        is_kept = self._parser.should_keep_alive() and self._pool.put_back(self)
        if is_kept:
            self._set_timer(_IDLE_SECONDS, self.abort)
        else:
            self.abort()
        exchange.ended()

    def _lose(self, why: str) -> None:
        exchange = self._exchange
        self.abort()
        if exchange is not None:
            exchange.lost(why)

    def _check_silence(self) -> None:
        rest = self._heard_at + self._silence_seconds - self._loop.time()
        if rest <= 0 and not self._is_paused:
            self._lose(f"it said nothing for {self._silence_seconds:g} s")
        else:
            self._set_timer(max(rest, 0.1), self._check_silence)

    def _set_timer(self, seconds: float, then: Callable[[], None]) -> None:
        self._cancel_timer()
        self._timer = self._loop.call_later(seconds, then)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _hung_up(has_answer_begun: bool) -> str:
    where = "in the middle of its answer" if has_answer_begun else "without an answer"
    return f"the endpoint disconnected {where}"


def _lines(headers: Mapping[str, str]) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")
