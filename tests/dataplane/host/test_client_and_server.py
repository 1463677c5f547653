"""A gateway's client and a replica's server over a real socket."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog

from dataplane import names
from dataplane.engine import (
    EngineEvent,
    EngineRequest,
    EngineUnavailableError,
    SamplingParams,
)
from dataplane.engine_pause import EnginePauser
from dataplane.event_queue import MAX_WAITING
from dataplane.host import engine_loop
from dataplane.host.client import HostClient
from dataplane.host.core import CoreEvent
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
from dataplane.lifecycle import Disposition, EventKind
from dataplane.routing.prompt_blocks import DIGEST_BYTES, hash_blocks
from dataplane.tokenizer import Tokenizer
from tests.dataplane.host.echo_engine import MAX_MODEL_LEN, EchoCore
from tests.dataplane.host.served_engine import (
    ServedEngine,
    collect,
    endpoint_at,
    find,
    run,
    serve,
    text_of,
    until,
)
from tests.dataplane.host.test_stepped_core import CountingCore, make_bounds

MakeRequest = Callable[..., EngineRequest]


def test_a_request_goes_from_scheduled_to_released(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            events = await collect(client, make_request(text="abc", max_output_tokens=3))
            assert [event.kind for event in events] == [
                EventKind.SCHEDULED,
                EventKind.PREFILL_CHUNK,
                EventKind.FIRST_TOKEN,
                EventKind.TOKENS,
                EventKind.TOKENS,
                EventKind.FINISHED,
                EventKind.RELEASED,
            ]
            assert text_of(events) == "abc"
            offsets = [event.offset for event in events if event.offset is not None]
            assert len(offsets) == len(events)
            assert offsets == sorted(offsets)
            assert offsets[0] >= 0
            end = find(events, EventKind.FINISHED)
            assert end.disposition is Disposition.LENGTH
            assert (end.num_prompt_tokens, end.num_output_tokens) == (3, 3)

    run(scenario())


def test_capabilities_come_with_the_hello(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        core = EchoCore(max_num_seqs=3)
        async with serve(core, tokenizer) as served:
            client = await served.connect()
            assert client.capabilities == core.capabilities

    run(scenario())


def test_many_requests_share_one_connection(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=4), tokenizer) as served:
            client = await served.connect()
            requests = [
                make_request(f"r{index}", chr(65 + index) * 3, max_output_tokens=index + 1)
                for index in range(20)
            ]
            answers = await asyncio.gather(*(collect(client, request) for request in requests))
            assert [text_of(events) for events in answers] == [
                chr(65 + index) * (index + 1) for index in range(20)
            ]

    run(scenario())


def test_an_iterator_that_nobody_reads_holds_up_no_other(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            idle = client.submit(make_request("idle", max_output_tokens=500))
            await anext(idle)
            assert text_of(await collect(client, make_request("busy"))) == "abcd"
            rest = [event async for event in idle]
            assert rest[-1].kind is EventKind.RELEASED

    run(scenario())


def test_a_request_that_is_not_read_is_given_no_steps_until_it_is(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            num_tokens = 4 * MAX_WAITING
            idle = client.submit(make_request("idle", max_output_tokens=num_tokens))
            events = [await anext(idle)]
            num_given = await _until_still(served, MAX_WAITING - 1)  # one tells of its prompt
            assert num_given < num_tokens
            assert text_of(await collect(client, make_request("busy"))) == "abcd"
            assert await _until_still(served, 0) == num_given + 4
            events += [event async for event in idle]
            assert len(text_of(events)) == num_tokens

    run(scenario())


def test_a_request_that_is_paused_says_so_and_is_given_no_steps_until_it_goes_on(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.001), tokenizer) as served:
            client = await served.connect()
            assert isinstance(client, EnginePauser)
            stream = client.submit(make_request("r", max_output_tokens=4 * MAX_WAITING))
            while (event := await anext(stream)).kind is not EventKind.TOKENS:
                pass
            await client.pause("r", True)
            while (event := await anext(stream)).kind is not EventKind.PAUSED:
                assert event.kind is EventKind.TOKENS
            paused_at = event.offset
            ahead = _ahead(stream)
            await asyncio.wait({ahead}, timeout=0.05)
            assert not ahead.done()
            await client.pause("r", False)
            event = await ahead
            assert event.kind is EventKind.RESUMED
            assert event.offset is not None
            assert paused_at is not None
            assert event.offset > paused_at + 0.04
            kinds = [event.kind async for event in stream]
            assert EventKind.PAUSED not in kinds
            assert kinds[-2:] == [EventKind.FINISHED, EventKind.RELEASED]

    run(scenario())


def test_a_request_that_is_paused_and_not_read_either_waits_for_both(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            stream = client.submit(make_request("r", max_output_tokens=4 * MAX_WAITING))
            await anext(stream)
            num_given = await _until_still(served, MAX_WAITING - 1)  # its queue is full
            await client.pause("r", True)
            while (await anext(stream)).kind is not EventKind.PAUSED:
                pass
            ahead = _ahead(stream)  # all is read
            await asyncio.wait({ahead}, timeout=0.05)
            assert not ahead.done()
            assert served.sample(names.REPLICA_OUTPUT_TOKENS_TOTAL) == num_given
            await client.pause("r", False)
            assert (await ahead).kind is EventKind.RESUMED
            async for _ in stream:
                pass

    run(scenario())


def _ahead(stream: AsyncIterator[EngineEvent]) -> "asyncio.Task[EngineEvent]":
    async def take() -> EngineEvent:
        return await anext(stream)

    return asyncio.create_task(take())


async def _until_still(served: ServedEngine, num_at_least: int) -> float:
    """Tokens that were selected, once there are so many and no more come."""

    def num_selected() -> float:
        return served.sample(names.REPLICA_OUTPUT_TOKENS_TOTAL) or 0.0

    await until(lambda: num_selected() > num_at_least)
    seen = -1.0
    while seen != num_selected():
        seen = num_selected()
        await asyncio.sleep(0.05)
    return seen


def test_a_stop_string_ends_the_request_at_its_token(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            request = make_request(text="abcdef", max_output_tokens=100, stop=("de",))
            events = await collect(client, request)
            assert text_of(events) == "abc"
            end = find(events, EventKind.FINISHED)
            assert (end.disposition, end.num_output_tokens) == (Disposition.STOP, 5)
            assert served.sample(names.REPLICA_OUTPUT_TOKENS_TOTAL) == 5

    run(scenario())


def test_a_stop_completed_by_the_last_allowed_token_is_a_stop(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = await served.connect()
            events = await collect(client, make_request(max_output_tokens=2, stop=("b",)))
            assert text_of(events) == "a"
            assert find(events, EventKind.FINISHED).disposition is Disposition.STOP

    run(scenario())


def test_a_cancelled_request_ends_with_that_disposition_and_is_released(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.01), tokenizer) as served:
            client = await served.connect()
            events: list[EngineEvent] = []
            async for event in client.submit(make_request(max_output_tokens=10_000)):
                events.append(event)
                if event.kind is EventKind.FIRST_TOKEN:
                    await client.cancel("r1", Disposition.DEADLINE)
                    await client.cancel("r1", Disposition.CANCELLED)  # the first one counts
            assert find(events, EventKind.FINISHED).disposition is Disposition.DEADLINE
            assert events[-1].kind is EventKind.RELEASED
            assert served.sample(f"{names.REPLICA_CANCEL_TO_RELEASE_SECONDS}_count") == 1

    run(scenario())


def test_a_request_cancelled_while_it_waits_never_runs(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=1, step_seconds=0.01), tokenizer) as served:
            client = await served.connect()
            runs = client.submit(make_request("runs", max_output_tokens=10_000))
            await anext(runs)
            waits = asyncio.create_task(collect(client, make_request("waits")))
            await until(lambda: served.engine_loop.stats().num_waiting == 1)
            await client.cancel("waits", Disposition.CANCELLED)
            kinds = [event.kind for event in await waits]
            assert kinds == [EventKind.FINISHED, EventKind.RELEASED]
            await runs.aclose()

    run(scenario())


def test_closing_an_iterator_early_cancels_its_request(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.01), tokenizer) as served:
            client = await served.connect()
            async with contextlib.aclosing(
                client.submit(make_request(max_output_tokens=10_000))
            ) as events:
                await anext(events)
            await until(lambda: served.engine_loop.stats().num_running == 0)
            assert text_of(await collect(client, make_request())) == "abcd"

    run(scenario())


def test_a_gateway_that_vanishes_takes_only_its_own_requests_along(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.01), tokenizer) as served:
            leaver, stayer = await served.connect(), await served.connect()
            leaving = asyncio.create_task(
                collect(leaver, make_request("r1", max_output_tokens=10_000))
            )
            # The same id from two gateways names two requests.
            staying = asyncio.create_task(collect(stayer, make_request("r1", max_output_tokens=20)))
            await until(lambda: served.engine_loop.stats().num_running == 2)
            await leaver.close()
            with pytest.raises(EngineUnavailableError, match="closed the connection"):
                await leaving
            assert len(text_of(await staying)) == 20
            stats = served.engine_loop.stats()
            await until(lambda: served.engine_loop.stats().num_unreleased == 0)
            assert stats.num_running == 0

    run(scenario())


def test_a_lost_replica_ends_every_open_iterator_promptly(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.01), tokenizer) as served:
            client = await served.connect()
            open_requests = [
                asyncio.create_task(
                    collect(client, make_request(f"r{i}", max_output_tokens=10_000))
                )
                for i in range(3)
            ]
            await until(lambda: served.engine_loop.stats().num_running == 3)
            await served.server.close()
            async with asyncio.timeout(1):
                ends = await asyncio.gather(*open_requests, return_exceptions=True)
            assert all(isinstance(end, EngineUnavailableError) for end in ends)
            assert not client.is_connected
            with pytest.raises(EngineUnavailableError):
                await anext(client.submit(make_request()))
            with pytest.raises(EngineUnavailableError):
                await client.stats()

    run(scenario())


def test_another_replica_on_a_reused_port_is_refused(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            client = HostClient(endpoint_at(served.address, replica_id="replica-2"))
            with pytest.raises(EngineUnavailableError, match="replica replica-1 answers there"):
                await client.connect()
            assert not client.is_connected

    run(scenario())


def test_an_address_where_nobody_listens_is_unavailable(unused_address: str) -> None:
    async def scenario() -> None:
        with pytest.raises(EngineUnavailableError, match="connecting to"):
            await HostClient(endpoint_at(unused_address)).connect()

    run(scenario())


@pytest.fixture
def unused_address() -> str:
    async def find_port() -> str:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return f"127.0.0.1:{port}"

    return asyncio.run(find_port())


def test_stats_carry_their_age(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=5), tokenizer) as served:
            stats = await (await served.connect()).stats()
            assert (stats.max_num_seqs, stats.num_running) == (5, 0)
            assert 0 <= stats.age_seconds < 5
            assert stats.num_blocks is None

    run(scenario())


class _GatedCore(EchoCore):
    """Its first step runs only when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_run = threading.Event()

    def run(self) -> list[CoreEvent]:
        if not self.may_run.wait(timeout=5):
            raise RuntimeError("nobody opened the gate")
        return super().run()


def test_scheduled_arrives_while_its_step_has_not_run(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        core = _GatedCore()
        async with serve(core, tokenizer) as served:
            client = await served.connect()
            kinds = []
            async for event in client.submit(make_request()):
                kinds.append(event.kind)
                if event.kind is EventKind.SCHEDULED:
                    core.may_run.set()
            assert kinds[-1] is EventKind.RELEASED

    run(scenario())


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


def test_draining_refuses_new_requests_and_lets_running_ones_end(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.005), tokenizer) as served:
            client = await served.connect()
            runs = asyncio.create_task(collect(client, make_request("runs", max_output_tokens=40)))
            await until(lambda: served.engine_loop.stats().num_running == 1)
            drain = asyncio.create_task(served.server.drain(seconds=10))
            await asyncio.sleep(0.01)
            refused = await collect(client, make_request("late"))
            assert [event.kind for event in refused] == [EventKind.FINISHED, EventKind.RELEASED]
            assert refused[0].status_code == 503
            assert refused[0].disposition is Disposition.ERROR
            assert find(await runs, EventKind.FINISHED).disposition is Disposition.LENGTH
            await drain

    run(scenario())


def test_a_drain_ends_what_is_left_after_its_bound(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(step_seconds=0.005), tokenizer) as served:
            client = await served.connect()
            runs = asyncio.create_task(collect(client, make_request(max_output_tokens=100_000)))
            await until(lambda: served.engine_loop.stats().num_running == 1)
            await served.server.drain(seconds=0.05)
            events = await runs
            end = find(events, EventKind.FINISHED)
            assert (end.disposition, end.status_code) == (Disposition.ERROR, 503)
            assert "stopped" in (end.reason or "")
            assert events[-1].kind is EventKind.RELEASED

    run(scenario())


def test_a_step_that_breaks_ends_every_request_with_an_error(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        core = EchoCore(max_num_seqs=1, fails_at_step=3, step_seconds=0.01)
        async with serve(core, tokenizer) as served:
            client = await served.connect()
            streams = [
                client.submit(make_request(f"r{i}", max_output_tokens=100)) for i in range(2)
            ]
            ends = await asyncio.gather(*(_read_to_finished(stream) for stream in streams))
            for end in ends:
                assert (end.disposition, end.status_code) == (Disposition.ERROR, 500)
                assert "the echo broke" in (end.reason or "")
            with pytest.raises(RuntimeError, match="the echo broke"):
                await served.running
            for stream in streams:
                await stream.aclose()

    run(scenario())


async def _read_to_finished(stream: AsyncIterator[EngineEvent]) -> EngineEvent:
    async for event in stream:
        if event.kind is EventKind.FINISHED:
            return event
    raise AssertionError("the stream ended without FINISHED")


class _NamedLines(logging.Handler):
    """Keeps each line with what it is about."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, Any]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append((record.getMessage(), structlog.contextvars.get_contextvars()))


def test_a_request_that_finishes_and_is_not_released_is_reported_as_a_leak_once(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    lines = _NamedLines()

    async def scenario() -> None:
        core = EchoCore(never_releases=True)
        async with serve(core, tokenizer, leak_bound_seconds=0.05) as served:
            client = await served.connect()
            trace = f"00-{'4b' * 16}-00f067aa0ba902b7-01"
            stream = client.submit(replace(make_request("leaky"), traceparent=trace))
            await _read_to_finished(stream)
            assert served.sample(names.REPLICA_LEAKED_REQUESTS_TOTAL) == 0
            await until(lambda: served.sample(names.REPLICA_LEAKED_REQUESTS_TOTAL) == 1)
            await asyncio.sleep(0.3)
            assert served.sample(names.REPLICA_LEAKED_REQUESTS_TOTAL) == 1
            await stream.aclose()

    logger = logging.getLogger(engine_loop.__name__)
    logger.addHandler(lines)
    try:
        run(scenario())
    finally:
        logger.removeHandler(lines)
    ((text, context),) = lines.found
    assert text.startswith("request leaky finished")
    assert context == {"request_id": "leaky", "trace_id": "4b" * 16}


def test_metrics_keep_prompt_tokens_decode_steps_and_slots_apart(
    tokenizer: Tokenizer, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(max_num_seqs=7), tokenizer) as served:
            client = await served.connect()
            await collect(client, make_request(text="abcdef", max_output_tokens=4))
            await until(lambda: served.sample(names.REPLICA_UNRELEASED_REQUESTS) == 0)
            assert served.sample(names.REPLICA_MAX_NUM_SEQS) == 7
            assert served.sample(names.REPLICA_ACTIVE_SEQUENCES) == 0
            assert served.sample(names.REPLICA_INPUT_TOKENS_TOTAL) == 6
            assert served.sample(names.REPLICA_OUTPUT_TOKENS_TOTAL) == 4
            assert served.sample(names.REPLICA_SCHEDULED_PROMPT_TOKENS_TOTAL) == 6
            assert served.sample(names.REPLICA_SCHEDULED_DECODE_STEPS_TOTAL) == 3
            # This engine does not say how many blocks it has: absent, not zero.
            assert served.sample(names.REPLICA_KV_BLOCKS) is None

    run(scenario())


def test_a_replica_tells_what_it_can_find_again_and_then_what_changed(tokenizer: Tokenizer) -> None:
    bounds = replace(make_bounds(), max_model_len=150, num_blocks=90, max_num_batched_tokens=256)

    async def ask(client: HostClient, name: str, token_ids: tuple[int, ...]) -> None:
        sampling = SamplingParams(max_output_tokens=2, ignore_eos=True)
        request = EngineRequest(
            request_id=name,
            attempt=0,
            endpoint="/v1/completions",
            prompt_token_ids=token_ids,
            sampling=sampling,
            isolation_key="acme",
        )
        assert find(await collect(client, request), EventKind.FINISHED).disposition

    async def scenario() -> None:
        core = CountingCore(bounds)
        core.load()
        async with serve(core, tokenizer) as served:
            client = await served.connect()
            one, two = (1,) * 70, (2,) * 120
            await ask(client, "one", one)
            first = await client.cached_prefixes(None)
            assert first is not None
            assert first.is_whole
            assert first.stored == b"".join(sorted(hash_blocks(one, "acme"), key=first.stored.find))
            assert len(first.stored) == 2 * DIGEST_BYTES
            await ask(client, "two", two)  # there is no room for both
            second = await client.cached_prefixes(first.cursor)
            assert second is not None
            assert not second.is_whole
            assert second.stored == b"".join(hash_blocks(two, "acme"))
            assert second.removed == hash_blocks(one, "acme")[1]

    run(scenario())


def test_an_engine_without_a_cache_tells_nothing_of_one(tokenizer: Tokenizer) -> None:
    async def scenario() -> None:
        async with serve(EchoCore(), tokenizer) as served:
            assert await (await served.connect()).cached_prefixes(None) is None

    run(scenario())
