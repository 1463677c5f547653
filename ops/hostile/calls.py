"""Calls of clients, sent at their times whatever became of those before, and how each went.

HTTP by hand: who reads slowly or hangs up must be able to.
"""

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ops.bench.hot_path.figures import percentile
from ops.hostile.place import MODEL

_ANSWER_SECONDS = 90.0
_SLOW_RECEIVE_BUFFER = 4096


@dataclass(slots=True)
class Call:
    """One request, and what came back. Times are seconds on this process's monotonic clock."""

    prompt: str
    max_tokens: int
    at: float = 0.0
    """When it is to be sent, after the beginning."""
    tenant: str = "default"
    kind: str = ""
    """For whoever tells calls apart."""
    headers: Mapping[str, str] = field(default_factory=dict)
    read_bytes_per_second: float | None = None
    """None: as fast as it comes."""
    sent_at: float = 0.0
    first_at: float | None = None
    """When the first text was there."""
    ended_at: float | None = None
    status: int | None = None
    """None: the connection ended before."""
    code: str | None = None
    """Of an error, on arrival or in the stream."""
    retry_after: str | None = None
    is_whole: bool = False
    chunk_gaps: list[float] = field(default_factory=list)
    """Seconds between reads that brought something."""

    @property
    def seconds(self) -> float:
        """From sending to the end."""
        assert self.ended_at is not None
        return self.ended_at - self.sent_at

    @property
    def first_seconds(self) -> float:
        """From sending to the first text."""
        assert self.first_at is not None
        return self.first_at - self.sent_at


class NeverAnsweredError(Exception):
    """A call was neither answered nor cut within the bound."""


@dataclass(slots=True)
class Clients:
    """Any number of them, before one gateway."""

    host: str
    port: int
    calls: list[Call] = field(default_factory=list)
    """Those that were begun."""

    async def send_all(self, planned: Iterable[Call]) -> None:
        """Each at its time; returns when all have ended."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for call in sorted(planned, key=lambda each: each.at):
                await asyncio.sleep(began + call.at - time.monotonic())
                group.create_task(self.send(call))

    async def send(self, call: Call) -> None:
        """Send it now, and read all of its answer."""
        self.calls.append(call)
        call.sent_at = time.monotonic()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._talk(call)
        except TimeoutError as error:
            raise NeverAnsweredError(f"a call heard nothing for {_ANSWER_SECONDS:g} s") from error
        except (OSError, asyncio.IncompleteReadError):
            pass  # cut off: `is_whole` says so
        finally:
            call.ended_at = time.monotonic()

    async def _talk(self, call: Call) -> None:
        reader, writer = await self._connect(call)
        try:
            writer.write(_request(call))
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            call.status = int(head[0].split(" ")[1])
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            call.retry_after = headers.get("retry-after")
            if "content-length" in headers:
                body = json.loads(await reader.readexactly(int(headers["content-length"])))
                call.code = body.get("error", {}).get("code")
                call.is_whole = True
            else:
                await self._read_stream(call, reader)
        finally:
            writer.close()

    async def _connect(self, call: Call) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if call.read_bytes_per_second is None:
            return await asyncio.open_connection(self.host, self.port)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_RECEIVE_BUFFER)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (self.host, self.port))
        return await asyncio.open_connection(sock=sock, limit=_SLOW_RECEIVE_BUFFER)

    async def _read_stream(self, call: Call, reader: asyncio.StreamReader) -> None:
        text = b""
        last_at = time.monotonic()
        while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
            chunk = await self._read_chunk(call, reader, size)
            now = time.monotonic()
            if call.first_at is None:
                call.first_at = now
            else:
                call.chunk_gaps.append(now - last_at)
            last_at = now
            text = text[-4096:] + chunk
        events = [line[6:] for line in text.split(b"\n") if line.startswith(b"data: ")]
        call.is_whole = bool(events) and events[-1] == b"[DONE]"
        if not call.is_whole and events:
            call.code = json.loads(events[-1]).get("error", {}).get("code")

    async def _read_chunk(self, call: Call, reader: asyncio.StreamReader, size: int) -> bytes:
        if call.read_bytes_per_second is None:
            return (await reader.readexactly(size + 2))[:-2]
        chunk = b""
        while len(chunk) < size + 2:
            part = await reader.read(min(1024, size + 2 - len(chunk)))
            if not part:
                raise asyncio.IncompleteReadError(chunk, size + 2)
            chunk += part
            await asyncio.sleep(len(part) / call.read_bytes_per_second)
        return chunk[:-2]


def evenly(
    rate: float, seconds: float, make: Callable[[int], Call], begin: float = 0.0
) -> list[Call]:
    """Calls at a constant rate, from `begin` on."""
    calls = []
    for number in range(round(rate * seconds)):
        call = make(number)
        call.at = begin + number / rate
        calls.append(call)
    return calls


def share_within(calls: Iterable[Call], quantile: float, read: Callable[[Call], float]) -> float:
    """A quantile of what `read` finds in each. Raises ValueError of none."""
    return percentile((read(call) for call in calls), quantile)


def _request(call: Call) -> bytes:
    body: dict[str, Any] = {
        "model": MODEL,
        "prompt": call.prompt,
        "max_tokens": call.max_tokens,
        "ignore_eos": True,
        "stream": True,
    }
    data = json.dumps(body).encode()
    more = "".join(f"{name}: {value}\r\n" for name, value in call.headers.items())
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: hostile\r\ncontent-type: application/json\r\n"
        f"x-pilothouse-tenant: {call.tenant}\r\nconnection: close\r\n{more}"
        f"content-length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data
