"""What a replica refuses, and that it harms nobody else."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dataplane.engine import (
    EngineRequest,
    SamplingParams,
)
from dataplane.host.server import find_fault
from dataplane.host.wire import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    Greeting,
    Hello,
    Submit,
    encode_frame,
    read_replica_message,
)
from dataplane.lifecycle import EventKind
from dataplane.tokenizer import Tokenizer
from tests.dataplane.host.echo_engine import MAX_MODEL_LEN, EchoCore
from tests.dataplane.host.served_engine import (
    collect,
    run,
    serve,
    text_of,
    until,
)

MakeRequest = Callable[..., EngineRequest]


def test_a_request_that_can_never_fit_is_refused_and_holds_nothing(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            events = await collect(client, make_request(max_output_tokens=MAX_MODEL_LEN))
            assert [event.kind for event in events] == [EventKind.FINISHED, EventKind.RELEASED]
            assert events[0].status_code == 400
            assert "more than" in (events[0].reason or "")

    run(scenario())


def test_token_ids_that_would_break_the_engine_never_reach_it(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            request = replace(make_request(), prompt_token_ids=(tokenizer.vocab_size,))
            events = await collect(client, request)
            assert [event.kind for event in events] == [EventKind.FINISHED, EventKind.RELEASED]
            assert events[0].status_code == 400
            assert text_of(await collect(client, make_request())) == "abcd"

    run(scenario())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"prompt_token_ids": ()}, "no tokens"),
        ({"prompt_token_ids": (-1,)}, "outside the vocabulary"),
        ({"sampling": SamplingParams(max_output_tokens=0)}, "ask for 1 or more"),
        ({"sampling": SamplingParams(max_output_tokens=1, stop=("",))}, "empty stop"),
    ],
)
def test_every_fault_of_a_request_is_named(
    make_request: MakeRequest, changes: dict[str, Any], says: str
) -> None:
    assert find_fault(make_request(), vocab_size=1000) is None
    assert says in str(find_fault(replace(make_request(), **changes), vocab_size=1000))


def test_a_prompt_too_large_for_a_frame_ends_without_harm(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            huge = replace(
                make_request("huge"), prompt_token_ids=(70_000,) * (MAX_FRAME_BYTES // 5)
            )
            events = await collect(client, huge)
            assert events[0].status_code == 413
            assert events[-1].kind is EventKind.RELEASED
            assert text_of(await collect(client, make_request())) == "abcd"

    run(scenario())


async def _raw_connection(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A gateway that greeted properly and then does as the test likes."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(encode_frame(Greeting(PROTOCOL_VERSION, "raw")))
    assert isinstance(await read_replica_message(reader), Hello)
    return reader, writer


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x00\x00\x00\x01\xc1", "malformed frame"),
        (encode_frame(Greeting(PROTOCOL_VERSION, "raw")), "greeted twice"),
    ],
)
def test_a_malformed_frame_closes_only_its_connection_and_is_logged(
    tokenizer: Tokenizer,
    make_request: MakeRequest,
    caplog: pytest.LogCaptureFixture,
    data: bytes,
    says: str,
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.01), tokenizer) as served:
            client = await served.connect()
            reader, writer = await _raw_connection(served.address)
            writer.write(encode_frame(Submit(make_request("raw", max_output_tokens=10_000))))
            await until(lambda: served.engine_loop.stats().num_running == 1)
            writer.write(data)
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            await until(lambda: served.engine_loop.stats().num_running == 0)
            assert text_of(await collect(client, make_request())) == "abcd"
            await _close(writer)

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert says in caplog.text


def test_a_request_id_used_twice_at_once_breaks_the_connection(
    tokenizer: Tokenizer, make_request: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.01), tokenizer) as served:
            _, writer = await _raw_connection(served.address)
            frame = encode_frame(Submit(make_request(max_output_tokens=10_000)))
            writer.write(frame + frame)
            await until(lambda: "submitted request r1 twice" in caplog.text)
            await until(lambda: served.engine_loop.stats().num_running == 0)
            await _close(writer)

    with caplog.at_level(logging.INFO):
        run(scenario())


def test_another_protocol_version_is_told_which_one_is_spoken(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            host, port = served.address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(encode_frame(Greeting(PROTOCOL_VERSION + 1, "from the future")))
            hello = await read_replica_message(reader)
            assert isinstance(hello, Hello)
            assert hello.protocol_version == PROTOCOL_VERSION
            await _close(writer)

    run(scenario())


def test_a_gateway_that_does_not_read_loses_its_requests_and_not_the_hosts_memory(
    tokenizer: Tokenizer, make_request: MakeRequest, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=64), tokenizer, max_unread_bytes=2**16) as served:
            _, writer = await _raw_connection(served.address)
            reader_transport = writer.transport
            assert isinstance(reader_transport, asyncio.ReadTransport)
            reader_transport.pause_reading()
            for index in range(64):
                request = make_request(f"r{index}", max_output_tokens=900_000)
                writer.write(encode_frame(Submit(request)))
            await until(lambda: "bytes unread" in caplog.text, seconds=15)
            await until(lambda: served.engine_loop.stats().num_running == 0)
            await until(lambda: served.engine_loop.stats().num_unreleased == 0)
            await _close(writer)

    with caplog.at_level(logging.INFO):
        run(scenario())
