"""Requests that nobody reads, or that wait for the client, are given no steps meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Callable

from dataplane import names
from dataplane.engine import (
    EngineEvent,
    EngineRequest,
)
from dataplane.engine_pause import EnginePauser
from dataplane.event_queue import MAX_WAITING
from dataplane.lifecycle import EventKind
from dataplane.tokenizer import Tokenizer
from tests.dataplane.host.echo_engine import EchoCore
from tests.dataplane.host.served_engine import (
    ServedEngine,
    collect,
    run,
    serve,
    text_of,
    until,
)

MakeRequest = Callable[..., EngineRequest]


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
