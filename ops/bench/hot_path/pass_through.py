"""`python -m ops.bench.hot_path.pass_through`: the least that a proxy in Python can do.

Plain ASGI under uvicorn with httptools and uvloop, and httpx towards the stub: the libraries
that the gateway itself uses. It reads nothing, counts nothing, records nothing and forwards raw
bytes. With --relay it is less than a proxy: a TCP relay that knows no HTTP at all.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx
import uvicorn
import uvloop

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
_HOP_BY_HOP = frozenset({b"host", b"connection", b"transfer-encoding", b"content-length"})


class PassThrough:
    """The ASGI application in front of one upstream."""

    def __init__(self, upstream: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=upstream,
            timeout=60,
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            trust_env=False,
        )

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"  # the lifespan is off
        body = await _read_body(receive)
        headers = [(name, value) for name, value in scope["headers"] if name not in _HOP_BY_HOP]
        async with self._http.stream(
            scope["method"], scope["path"], content=body, headers=headers
        ) as answer:
            said = [pair for pair in answer.headers.raw if pair[0].lower() not in _HOP_BY_HOP]
            await send(
                {"type": "http.response.start", "status": answer.status_code, "headers": said}
            )
            async for data in answer.aiter_raw():
                await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _read_body(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        data: bytes = message.get("body", b"")
        body += data
        if not message.get("more_body", False):
            return body


class Relay(asyncio.Protocol):
    """One side of a connection; what comes goes out at the other one."""

    def __init__(self, other: "Relay | None" = None) -> None:
        self.other = other
        self.transport: asyncio.Transport | None = None
        self._before: list[bytes] = []

    # asyncio hands BaseTransport to every protocol, and uvloop's own are no subclass of it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        if self.other is not None:
            self.other.join(self)

    def join(self, other: "Relay") -> None:
        """The other side is there."""
        self.other = other
        assert other.transport is not None
        for data in self._before:
            other.transport.write(data)
        self._before.clear()

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self._before.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class RelayEntrance(Relay):
    """A client's side: it calls the upstream when it is called."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = upstream
        self._calling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._calling = asyncio.create_task(self._call())

    async def _call(self) -> None:
        host, _, port = self._upstream.rpartition(":")
        await asyncio.get_running_loop().create_connection(lambda: Relay(self), host, int(port))


async def _relay(upstream: str) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: RelayEntrance(upstream), "127.0.0.1", 0, backlog=2048)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    _announce(server.sockets[0].getsockname())
    await ended.wait()


class _Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets=sockets)
        _announce(self.servers[0].sockets[0].getsockname())


def _announce(name: Any) -> None:
    host, port = name[:2]
    sys.stdout.write(json.dumps({"http": f"{host}:{port}"}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--upstream", required=True, help="host:port of the stub's HTTP side")
    parser.add_argument("--relay", action="store_true", help="relay TCP, without HTTP")
    options = parser.parse_args()
    if options.relay:
        uvloop.run(_relay(options.upstream))
        return
    config = uvicorn.Config(
        PassThrough(f"http://{options.upstream}"),
        port=0,
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        proxy_headers=False,
        server_header=False,
    )
    _Server(config).run()


if __name__ == "__main__":
    main()
