"""Clients: each takes one attempt after the other, and keeps its own account of every one.

HTTP is written and read by hand: a client library would hide at which byte it was left alone.
"""

import asyncio
import json
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ops.endurance.attempt import Attempt, End, Kind

_ANSWER_SECONDS = 60.0
_REFUSED_PAUSE_SECONDS = 0.1
_SLOW_SECONDS = 0.05
_SLOW_RECEIVE_BUFFER = 2048
_SLOW_READERS = (Kind.READS_SLOWLY, Kind.LEAVES_READING_SLOWLY)
_LEAVERS_IN_STREAM = (Kind.LEAVES_IN_STREAM, Kind.LEAVES_READING_SLOWLY)
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class SilentGatewayError(Exception):
    """An attempt was neither answered nor cut within the bound: it hangs."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(
            f"attempt {attempt.number} ({attempt.kind}, trace {attempt.trace_id}) heard nothing "
            f"for {_ANSWER_SECONDS:g} s"
        )


async def send_all(
    address: tuple[str, int], attempts: Iterator[Attempt], num_clients: int
) -> list[Attempt]:
    """Carry out `attempts` by `num_clients` at once, and return them with how they went."""
    done: list[Attempt] = []

    async def one() -> None:
        for attempt in attempts:
            done.append(attempt)
            await Client(address, attempt).carry_out()

    async with asyncio.TaskGroup() as group:
        for _ in range(num_clients):
            group.create_task(one())
    return done


@dataclass(slots=True)
class Client:
    """Carries out one attempt on a connection of its own."""

    address: tuple[str, int]
    attempt: Attempt

    async def carry_out(self) -> None:
        """Fills in how it went."""
        attempt = self.attempt
        attempt.began_at_unix_ns = time.time_ns()
        reader, writer = await self._connect_at_last()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await self._talk(reader, writer)
        except TimeoutError as error:
            raise SilentGatewayError(attempt) from error
        except (OSError, asyncio.IncompleteReadError):
            if attempt.end is End.NO_ANSWER and attempt.status is not None:
                attempt.end = End.CUT
        finally:
            attempt.ended_at_unix_ns = time.time_ns()
            self._hang_up(writer)

    async def _connect_at_last(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Again and again: a gateway that is away has seen nothing of the attempt."""
        while True:
            try:
                return await self._connect()
            except OSError:
                self.attempt.num_refusals += 1
                await asyncio.sleep(_REFUSED_PAUSE_SECONDS)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.attempt.kind not in _SLOW_READERS:
            return await asyncio.open_connection(*self.address)
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SLOW_RECEIVE_BUFFER)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, self.address)
        except OSError:
            sock.close()
            raise
        return await asyncio.open_connection(sock=sock, limit=_SLOW_RECEIVE_BUFFER)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        attempt = self.attempt
        if not await self._send(writer):
            attempt.end = End.LEFT
            return
        if attempt.kind in (Kind.LEAVES_WAITING, Kind.LEAVES_TWICE):
            await asyncio.sleep(attempt.leaves_after_seconds)
            attempt.end = End.LEFT
            if attempt.kind is Kind.LEAVES_TWICE:
                writer.write_eof()
                await asyncio.sleep(attempt.leaves_after_seconds / 10)
            return
        length = await self._read_head(reader)
        if length is not None:
            self._read_answer(await reader.readexactly(length))
        else:
            await self._read_stream(reader)

    async def _send(self, writer: asyncio.StreamWriter) -> bool:
        """False when the client leaves before it has sent all."""
        attempt = self.attempt
        stays = attempt.kind is Kind.LEAVES_AFTER_END
        more = "".join(f"{name}: {value}\r\n" for name, value in attempt.headers.items())
        head = (
            f"POST {attempt.path} HTTP/1.1\r\nhost: endurance\r\n"
            f"content-type: application/json\r\n"
            f"traceparent: 00-{attempt.trace_id}-00f067aa0ba902b7-00\r\n"
            f"x-pilothouse-tenant: {attempt.tenant}\r\n"
            f"connection: {'keep-alive' if stays else 'close'}\r\n{more}"
            f"content-length: {len(attempt.body)}\r\n\r\n"
        ).encode()
        if attempt.kind is Kind.LEAVES_IN_HEAD:
            writer.write(head[: len(head) // 2])
        elif attempt.kind is Kind.LEAVES_IN_BODY:
            writer.write(head + attempt.body[: len(attempt.body) // 2])
        elif attempt.kind is Kind.SENDS_SLOWLY:
            writer.write(head)
            for start in range(0, len(attempt.body), 40):
                await asyncio.sleep(_SLOW_SECONDS / 5)
                writer.write(attempt.body[start : start + 40])
            attempt.has_sent_all = True
        else:
            writer.write(head + attempt.body)
            attempt.has_sent_all = True
        await writer.drain()
        if not attempt.has_sent_all:
            await asyncio.sleep(attempt.leaves_after_seconds)
        return attempt.has_sent_all

    async def _read_head(self, reader: asyncio.StreamReader) -> int | None:
        """The answer's length; None for a chunked one."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        self.attempt.status = int(head[0].split(" ")[1])
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        self.attempt.request_id = headers.get("x-request-id")
        return int(headers["content-length"]) if "content-length" in headers else None

    def _read_answer(self, body: bytes) -> None:
        usage = json.loads(body).get("usage")
        if usage is not None:
            self.attempt.num_output_tokens = usage["completion_tokens"]
        self.attempt.end = End.WHOLE

    async def _read_stream(self, reader: asyncio.StreamReader) -> None:
        attempt = self.attempt
        text = b""
        num_chunks = 0
        while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
            text += (await reader.readexactly(size + 2))[:-2]
            num_chunks += 1
            if attempt.kind in _LEAVERS_IN_STREAM and num_chunks >= attempt.num_chunks:
                await asyncio.sleep(attempt.leaves_after_seconds)
                attempt.end = End.LEFT
                return
            if attempt.kind in _SLOW_READERS:
                await asyncio.sleep(_SLOW_SECONDS)
        self._judge_stream(text)

    def _judge_stream(self, text: bytes) -> None:
        events = [line[6:] for line in text.split(b"\n") if line.startswith(b"data: ")]
        if events and events[-1] == b"[DONE]":
            usage = [json.loads(event).get("usage") for event in events[:-1]]
            self.attempt.num_output_tokens = next(u["completion_tokens"] for u in usage if u)
            self.attempt.end = End.WHOLE
        else:
            self.attempt.end = End.ERROR_EVENT

    def _hang_up(self, writer: asyncio.StreamWriter) -> None:
        attempt = self.attempt
        is_open = not writer.transport.is_closing()  # else the gateway was quicker
        if attempt.has_left and attempt.leaves_by_reset and is_open:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            writer.transport.abort()
        else:
            writer.close()
