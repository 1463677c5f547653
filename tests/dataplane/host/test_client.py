"""The gateway's side alone, against a replica that does not behave."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest

from dataplane.engine import EngineRequest, EngineUnavailableError
from dataplane.host.client import HostClient
from dataplane.host.wire import PROTOCOL_VERSION, Hello, encode_frame, read_client_message
from tests.dataplane.host.echo_engine import EchoCore
from tests.dataplane.host.served_engine import SPEC, collect, endpoint_at, run


@contextlib.asynccontextmanager
async def replica_that_reads_nothing() -> AsyncIterator[str]:
    """It says hello and is frozen from then on."""
    frozen = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_client_message(reader)
        hello = Hello(PROTOCOL_VERSION, SPEC.replica_id, EchoCore().capabilities)
        writer.write(encode_frame(hello))
        await frozen.wait()
        writer.transport.abort()

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**14)
    listener.bind(("127.0.0.1", 0))
    server = await asyncio.start_server(serve, sock=listener)
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        frozen.set()
        server.close()


def test_a_replica_that_stopped_reading_does_not_hold_up_the_hang_up(
    make_request: Callable[..., EngineRequest],
) -> None:
    async def scenario() -> None:
        async with replica_that_reads_nothing() as address:
            client = HostClient(endpoint_at(address))
            await client.connect()
            large = replace(make_request(), prompt_token_ids=(70_000,) * 1_500_000)
            waiting = [
                asyncio.create_task(collect(client, replace(large, request_id=f"r{i}")))
                for i in range(3)
            ]
            await asyncio.sleep(0.05)
            async with asyncio.timeout(2):
                await client.close()
            for call in waiting:
                with pytest.raises(EngineUnavailableError, match="the gateway closed"):
                    await call

    run(scenario())
