"""The HTTP server below the gateway: uvicorn, with arrivals stamped and buffers kept small.

uvicorn's own protocol tells an application neither when the first byte of a request came
nor when the kernel has taken what was written. This one does, through the Connection and
Arrival in the scope's state. It also bounds a request's head in size and time, which uvicorn
and httptools do not.
"""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from dataplane.clock import monotonic_clock, wall_clock
from dataplane.gateway.connection import ARRIVAL_KEY, Arrival, Connection
from dataplane.gateway.openai_api.errors import ApiError

_MAX_HEAD_BYTES = 64 * 2**10
_HEAD_SECONDS = 30.0
"""A new connection, and a head that has begun, must be followed by a whole head within it."""
_KEEP_ALIVE_SECONDS = 75
_CLOSE_SECONDS = 5
"""How long connections may take to end once no request runs any more."""
_LAST_WORD_SECONDS = 10
"""How long a silent connection is kept while the server leaves: a client that was promised
that it stays may be about to use it."""
_LOOK_SECONDS = 0.05


class GatewayServerState(ServerState):
    """Shared by all connections of one server."""

    is_leaving: bool = False
    """No connection is to be used again after the next answer."""


class GatewayProtocol(HttpToolsProtocol):
    """One connection."""

    connection: Connection
    server_state: GatewayServerState
    is_private: bool = False
    """It came by a way that clients do not know."""
    _num_head_bytes: int = 0
    _is_in_head: bool = True
    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # asyncio hands BaseTransport to every protocol; uvicorn narrows it in the same way.
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)
        self.connection = Connection(transport, self.is_private)
        self._expect_head()
        if self.server_state.is_leaving:
            self.leave()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.pipeline:
            # The running request is not the newest one, and uvicorn tells only that.
            self.pipeline.clear()
        self._expect_no_head()
        super().connection_lost(exc)
        self.connection.note_lost(exc)

    def eof_received(self) -> None:
        """The client sends no more: it counts as gone, and the transport closes.

        On the wire somebody who hung up and somebody who only ended the sending side look the
        same until something is written, and a waiting request writes nothing. Work for nobody
        costs more than half-closed clients, which HTTP does not need, so both are cancelled.
        """

    def pause_writing(self) -> None:
        super().pause_writing()
        self.connection.note_paused()

    def resume_writing(self) -> None:
        super().resume_writing()
        self.connection.note_resumed()

    def data_received(self, data: bytes) -> None:
        if self._is_in_head:
            self._num_head_bytes += len(data)
        super().data_received(data)
        if self._is_in_head and self._num_head_bytes > _MAX_HEAD_BYTES:
            self._refuse(431, f"the request's head is larger than {_MAX_HEAD_BYTES} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._expect_head()
        self.scope["state"][ARRIVAL_KEY] = Arrival(
            at=monotonic_clock(), at_unix_ns=wall_clock(), connection=self.connection
        )

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        self._num_head_bytes = 0
        self._expect_no_head()
        super().on_headers_complete()
        if self.server_state.is_leaving:
            self.cycle.keep_alive = False

    def leave(self) -> None:
        """The server leaves: the next answer that can still say so is the last one.

        An answer whose head has left promised a connection that stays; it stays for one more
        request, or until nothing came for a while.
        """
        if self.is_private:
            return
        self.timeout_keep_alive = _LAST_WORD_SECONDS
        if self.cycle is None or self.cycle.response_complete:
            if not self._num_head_bytes:
                self._unset_keepalive_if_required()
                self.timeout_keep_alive_task = self.loop.call_later(
                    _LAST_WORD_SECONDS, self.timeout_keep_alive_handler
                )
            return
        if not self.cycle.response_started:  # the newest, where several came at once
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _expect_head(self) -> None:
        self._expect_no_head()
        self._head_timer = self.loop.call_later(_HEAD_SECONDS, self._give_head_up)

    def _expect_no_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _give_head_up(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_head()  # a word of ours in the middle of an answer would spoil it
        else:
            self._refuse(408, f"no request's head was complete within {_HEAD_SECONDS:g} s")

    def _refuse(self, status: int, message: str) -> None:
        """Answer what never became a request, and hang up."""
        if self.transport.is_closing():
            return
        body = ApiError(status=status, message=message, code="invalid_http").encode()
        head = (
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"x-request-id: {uuid.uuid4().hex}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(STATUS_LINE[status] + head.encode("ascii") + body)
        self.transport.close()


class GatewayServer(uvicorn.Server):
    """Leaves signals to its caller, and calls `on_listening` once connections are taken."""

    server_state: GatewayServerState

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], Awaitable[None]]) -> None:
        super().__init__(config)
        self.server_state = GatewayServerState()
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        await self._on_listening()

    def leave(self) -> None:
        """Take no more connections; those that are there are served once more each.

        The listening socket itself stays open for whoever shares it.
        """
        self.server_state.is_leaving = True
        for server in self.servers:
            server.close()
        for protocol in self._protocols():
            protocol.leave()

    async def left(self) -> None:
        """Wait until no client is connected any more. Comes after `leave`."""
        while any(not protocol.is_private for protocol in self._protocols()):  # noqa: ASYNC110
            await asyncio.sleep(_LOOK_SECONDS)

    async def open_private(self, listener: socket.socket) -> None:
        """Answer on `listener` too, until the end: for who looks after this process."""

        def create_protocol() -> GatewayProtocol:
            protocol = GatewayProtocol(self.config, self.server_state, self.lifespan.state)
            protocol.is_private = True
            return protocol

        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_server(create_protocol, sock=listener))

    def _protocols(self) -> Iterator[GatewayProtocol]:
        for protocol in list(self.server_state.connections):
            assert isinstance(protocol, GatewayProtocol)  # the config names no other
            yield protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(host: str, port: int, send_buffer_bytes: int) -> socket.socket:
    """A listening socket whose connections inherit the small send buffer and no delay.

    Raises OSError when the address is taken or not ours.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tune(listener, send_buffer_bytes)
        listener.bind((host, port))
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def tune(listener: socket.socket, send_buffer_bytes: int) -> None:
    """What connections inherit from the socket that they come through."""
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    # Small fragments leave at once; waiting for an acknowledgement costs 40 ms each.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def address_of(listener: socket.socket, advertised_host: str | None = None) -> str:
    """The base URL that reaches `listener`, under another host's name where one is told."""
    host, port = listener.getsockname()[:2]
    host = advertised_host or host
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def create_server(app: ASGIApp, on_listening: Callable[[], Awaitable[None]]) -> GatewayServer:
    """The server of `app`. Nothing listens before `serve`."""
    options: dict[str, Any] = {
        "http": GatewayProtocol,
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "log_config": None,
        "proxy_headers": False,
        "server_header": False,
        "timeout_keep_alive": _KEEP_ALIVE_SECONDS,
        "timeout_graceful_shutdown": _CLOSE_SECONDS,
    }
    return GatewayServer(uvicorn.Config(app, **options), on_listening)
