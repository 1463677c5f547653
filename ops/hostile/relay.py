"""Somebody between a gateway and a replica, who changes what the replica says.

The replica is a real one and does the work. What the gateway says goes through as it is.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from dataplane.host.wire import ReplicaMessage, encode_frame, read_replica_message

Lie = Callable[[ReplicaMessage], ReplicaMessage]
"""What is said in place of a message of the replica."""


def tell_the_truth(message: ReplicaMessage) -> ReplicaMessage:
    """No lie."""
    return message


class LyingRelay:
    """Listens at `address` in the place of one replica."""

    def __init__(self, replica_address: str) -> None:
        self.lie: Lie = tell_the_truth
        self.address = ""
        self._writers: set[asyncio.StreamWriter] = set()
        self._handlers: set[asyncio.Task[None]] = set()
        self._host, _, port = replica_address.rpartition(":")
        self._port = int(port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a gateway, until either side hangs up."""
        task = asyncio.current_task()
        assert task is not None  # start_server runs this in a task of its own
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        replica_reader, replica_writer = await asyncio.open_connection(self._host, self._port)
        self._writers |= {writer, replica_writer}
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pass_on(reader, replica_writer))
                group.create_task(self._lie_on(replica_reader, writer))
        except* (OSError, _HungUpError):
            pass  # whichever side went, the other one goes as well
        finally:
            self._writers -= {writer, replica_writer}
            writer.close()
            replica_writer.close()

    async def hang_up(self) -> None:
        """On everybody."""
        for writer in self._writers:
            writer.close()
        if self._handlers:
            await asyncio.wait(self._handlers)

    async def _lie_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (message := await read_replica_message(reader)) is not None:
            writer.write(encode_frame(self.lie(message)))
            await writer.drain()
        raise _HungUpError


class _HungUpError(Exception):
    pass


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
        await writer.drain()
    raise _HungUpError


@contextlib.asynccontextmanager
async def relaying(replica_address: str) -> AsyncIterator[LyingRelay]:
    """Before the replica at host:port, until the block ends."""
    relay = LyingRelay(replica_address)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    relay.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield relay
    finally:
        server.close()
        await relay.hang_up()
