"""What a request took of engines stands in its record: as they told, or worked out beside them."""

import asyncio
from pathlib import Path

import pytest

from dataplane.engine import EngineUse
from dataplane.lifecycle import Observability
from dataplane.metering import Metered
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    add_replica,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


async def test_what_the_engine_told_with_the_release_is_observed(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.used = EngineUse(engine_seconds=0.125, kv_block_seconds=2.5)
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=2))
        record = await gateway.record_of(response.headers["x-request-id"])
    assert record.metered == Metered(
        engine_seconds=0.125, engine_observability=Observability.OBSERVED, kv_block_seconds=2.5
    )


async def test_what_an_endpoint_does_not_tell_is_inferred_from_who_was_there_beside_it(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.capabilities, replica.shows_steps = BLIND, False
    replica.step_seconds = 0.02
    async with serving(tmp_path) as gateway:
        responses = await asyncio.gather(
            *(gateway.http.post(CHAT, json=say(max_tokens=8)) for _ in range(3))
        )
        records = [await gateway.record_of(each.headers["x-request-id"]) for each in responses]
    total = 0.0
    for record in records:
        assert record.metered is not None
        assert record.metered.engine_observability is Observability.INFERRED
        assert record.metered.kv_block_seconds is None
        total += record.metered.engine_seconds
    begin = min(r.arrived_at_unix_ns for r in records) / 1e9
    end = max(r.arrived_at_unix_ns / 1e9 + r.events[-1].at for r in records)
    assert 0 < total <= end - begin + 0.001, "together they had the replica for no longer than that"


async def test_an_attempt_that_lost_its_replica_counts_and_one_that_never_began_does_not(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    other = add_replica("b")
    replica.used = other.used = EngineUse(engine_seconds=0.125, kv_block_seconds=2.5)
    replica.hold()
    async with serving(tmp_path, deployment("a", "b")) as gateway:
        task = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=2)))
        await until(lambda: bool(replica.submitted))
        replica.is_dead = True
        replica.resume()
        record = await gateway.record_of((await task).headers["x-request-id"])
        body = {**say(), "model": "nobody"}
        refused = await gateway.record_of(
            (await gateway.http.post(CHAT, json=body)).headers["x-request-id"]
        )
    assert record.metered is not None
    assert record.metered.engine_observability is Observability.INFERRED
    assert record.metered.engine_seconds > 0.125
    assert record.metered.kv_block_seconds is None
    assert refused.metered is None
