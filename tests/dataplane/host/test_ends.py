"""How requests end: by a stop, a cancel, or a gateway or a replica that is gone."""

import asyncio
import contextlib
import logging
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
)
from dataplane.host import engine_loop
from dataplane.lifecycle import Disposition, EventKind
from dataplane.tokenizer import Tokenizer
from tests.dataplane.host.echo_engine import EchoCore
from tests.dataplane.host.served_engine import (
    collect,
    find,
    run,
    serve,
    text_of,
    until,
)

MakeRequest = Callable[..., EngineRequest]


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
