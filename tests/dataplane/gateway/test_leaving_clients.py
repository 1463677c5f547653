"""Clients that leave, wherever their request is: it ends, and leaves nothing."""

import asyncio
from pathlib import Path

import pytest

from dataplane.lifecycle import Delivery, Disposition, EventKind, find_event
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import ScriptedReplica
from tests.dataplane.gateway.told_life import end_of, kinds

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


async def test_a_client_that_leaves_in_decode_is_cancelled_and_released(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.step_seconds = 0.005
        async with gateway.http.stream("POST", CHAT, json=say(max_tokens=400, stream=True)) as r:
            request_id = r.headers["x-request-id"]
            async for _ in r.aiter_lines():
                break
        record = await gateway.record_of(request_id)
    assert end_of(record) == (Disposition.CANCELLED, Delivery.PARTIAL, 200)
    assert record.reason == "the client left"
    assert kinds(record)[-1] is EventKind.RELEASED
    assert record.num_output_tokens is not None
    assert record.num_output_tokens < 400
    last_write = find_event(record.events, EventKind.LAST_WRITE)
    released = find_event(record.events, EventKind.RELEASED)
    assert last_write is not None
    assert released is not None
    # One step and 100 ms is the goal; a loaded test machine gets more room.
    assert released.at - last_write.at < 0.5


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_in_prefill_gets_nothing_and_leaves_nothing(
    tmp_path: Path, replica: ScriptedReplica, is_stream: bool
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(stream=is_stream)))
        await until(lambda: len(replica.submitted) == 1)
        replica.step()  # scheduled, and no token yet
        await until(lambda: [r.state for r in gateway.app.gateway.registry.live()] == ["prefill"])
        call.cancel()
        record = await gateway.last_record(0)
    assert end_of(record) == (Disposition.CANCELLED, Delivery.NONE, None)
    assert EventKind.RELEASED in kinds(record)


async def test_a_client_that_leaves_before_it_was_scheduled_is_taken_out_of_the_engine(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say()))
        await until(lambda: len(replica.submitted) == 1)
        call.cancel()
        record = await gateway.last_record(0)
    assert end_of(record) == (Disposition.CANCELLED, Delivery.NONE, None)
    assert EventKind.SCHEDULED not in kinds(record)


async def test_a_client_that_leaves_the_queue_never_reaches_an_engine(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, deployment("a", max_active=1)) as gateway:
        replica.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: len(replica.submitted) == 1)
        waiting = asyncio.create_task(gateway.http.post(CHAT, json=say()))
        await until(lambda: len(gateway.app.gateway.registry) == 2)
        await until(lambda: gateway.app.report().num_queued == 1)
        waiting.cancel()
        record = await gateway.last_record(0)
        assert end_of(record) == (Disposition.CANCELLED, Delivery.NONE, None)
        assert record.replica_ids == ()
        replica.resume()
        assert (await running).status_code == 200
    assert len(replica.submitted) == 1


async def test_an_engine_that_ignores_a_cancel_is_given_up_after_a_bound(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, release_seconds=0.2) as gateway:
        replica.ignores_cancel = True
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say()))
        await until(lambda: len(replica.submitted) == 1)
        call.cancel()
        record = await gateway.last_record(0)
    assert record.disposition is Disposition.CANCELLED
    assert record.reason == "the client left; the engine did not confirm the end"
    assert EventKind.RELEASED not in kinds(record)


async def test_an_answer_that_ends_before_its_cancel_arrives_keeps_its_own_end(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.ignores_cancel = True
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: len(replica.submitted) == 1)
        call.cancel()
        await until(lambda: len(replica.cancelled) == 1)
        replica.resume()
        record = await gateway.last_record(0)
    assert end_of(record) == (Disposition.LENGTH, Delivery.NONE, None)
    assert record.reason is None
