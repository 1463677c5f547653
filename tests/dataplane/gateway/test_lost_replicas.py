"""Replicas that are lost, come back, or break an answer."""

import asyncio
from pathlib import Path

import pytest

from dataplane.engine import EngineEvent
from dataplane.lifecycle import Delivery, Disposition, EventKind, Observability, find_event
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    add_replica,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, ScriptedReplica
from tests.dataplane.gateway.told_life import end_of, read_stream

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


async def test_a_replica_lost_before_the_first_byte_is_replaced_by_another(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    other = add_replica("b", capabilities=BLIND, num_cached_tokens=2)
    replica.num_cached_tokens = 3
    async with serving(tmp_path, deployment("a", "b")) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=2, stream=True)))
        await until(lambda: len(replica.submitted) == 1)
        replica.step()
        await until(lambda: [r.state for r in gateway.app.gateway.registry.live()] == ["prefill"])
        replica.die()
        response = await call
        assert response.status_code == 200
        record = await gateway.record_of(response.headers["x-request-id"])
    assert record.replica_ids == ("replica-a", "replica-b")
    assert [e.attempt for e in record.events if e.kind is EventKind.SCHEDULED] == [0, 1]
    assert end_of(record) == (Disposition.LENGTH, Delivery.COMPLETE, 200)
    assert [request.attempt for request in other.submitted] == [1]
    assert record.num_cached_tokens == 2


async def test_with_no_other_replica_a_lost_one_is_a_503(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, unserved_seconds=0.1) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(stream=True)))
        await until(lambda: len(replica.submitted) == 1)
        replica.step()
        await until(lambda: [r.state for r in gateway.app.gateway.registry.live()] == ["prefill"])
        replica.die()
        response = await call
        assert response.status_code == 503
        record = await gateway.record_of(response.headers["x-request-id"])
    assert end_of(record) == (Disposition.ERROR, Delivery.NONE, 503)
    assert "replica-a is unavailable: it was killed" in (record.reason or "")
    released = find_event(record.events, EventKind.RELEASED)
    assert released is not None
    assert released.observability is Observability.INFERRED


async def test_a_replica_lost_in_mid_stream_ends_it_with_a_clear_error_and_no_end_mark(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    add_replica("b", capabilities=BLIND)
    async with serving(tmp_path, deployment("a", "b")) as gateway:
        replica.step_seconds = 0.005
        body = say(max_tokens=400, stream=True)
        async with gateway.http.stream("POST", CHAT, json=body) as response:
            await until(lambda: gateway.app.gateway.registry.live()[0].has_written)
            replica.die()
            events = await read_stream(response)
        record = await gateway.record_of(response.headers["x-request-id"])
        other = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert other.status_code == 200
    last = events[-1]
    assert isinstance(last, dict)
    assert last["error"]["message"] == "replica replica-a is unavailable: it was killed"
    assert end_of(record) == (Disposition.ERROR, Delivery.PARTIAL, 200)
    assert record.replica_ids == ("replica-a",)


async def test_a_replica_that_comes_back_is_connected_again(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, unserved_seconds=0.1) as gateway:
        replica.die()
        lost = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert lost.status_code == 503
        replica.is_dead = False
        await until(lambda: gateway.app.report().replicas[0].is_connected)
        found = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert found.status_code == 200


async def test_what_a_replica_told_grows_old_when_it_tells_nothing_new(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        await until(lambda: gateway.app.report().replicas[0].stats is not None)
        replica.is_mute = True
        await asyncio.sleep(0.05)
        stats = gateway.app.report().replicas[0].stats
        replica.is_mute = False
    assert stats is not None
    assert stats.age_seconds >= 0.04


@pytest.mark.parametrize(
    ("end", "status", "disposition"),
    [
        (
            EngineEvent(
                kind=EventKind.FINISHED,
                disposition=Disposition.ERROR,
                status_code=400,
                reason="the prompt can never fit",
            ),
            400,
            Disposition.ERROR,
        ),
        (
            EngineEvent(kind=EventKind.FINISHED, disposition=Disposition.ERROR, reason="it broke"),
            500,
            Disposition.ERROR,
        ),
        (EngineEvent(kind=EventKind.TOKENS, num_tokens=1, text="x"), 502, Disposition.ERROR),
        (EngineEvent(kind=EventKind.FINISHED), 502, Disposition.ERROR),
    ],
)
async def test_what_an_engine_refuses_or_breaks_has_a_proper_status(
    tmp_path: Path,
    replica: ScriptedReplica,
    end: EngineEvent,
    status: int,
    disposition: Disposition,
) -> None:
    async with serving(tmp_path) as gateway:
        replica.finish_instead = end
        response = await gateway.http.post(CHAT, json=say(stream=True))
        assert response.status_code == status
        record = await gateway.record_of(response.headers["x-request-id"])
        assert end_of(record) == (disposition, Delivery.NONE, status)
        replica.finish_instead = None
        assert (await gateway.http.post(CHAT, json=say(max_tokens=1))).status_code == 200
