"""KV blocks that a policy has reserved at a gateway, against what replicas say of theirs."""

import asyncio
from pathlib import Path

import pytest

from dataplane.leases.kv_reservation import KVDemand
from dataplane.lifecycle import Disposition
from dataplane.policy import KVLimits, KVReserve
from tests.dataplane.gateway.running_gateway import CHAT, deployment, say, serving, until
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

ROOM = KVDemand(num_prompt_tokens=1, num_output_tokens=0)
FULL = {"kv": KVLimits(reserve=KVReserve.FULL, watermark=0.0)}


async def test_a_request_waits_at_the_gateway_for_blocks_that_another_one_may_still_need(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.num_blocks = 8
    replica.hold()
    async with serving(tmp_path, deployment("a", terms=FULL)) as gateway:
        queue = gateway.app.gateway.fleet.queue_of("chat")
        await until(lambda: queue.kv.room("replica-a", ROOM).num_usable is not None)
        calls = [
            asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=90))) for _ in range(2)
        ]
        await until(lambda: (queue.num_waiting, len(replica.submitted)) == (1, 1))
        [waiting] = [
            each for each in gateway.app.gateway.registry.live() if each.ticket is not None
        ]
        assert "KV blocks" in waiting.waits_for()
        replica.resume()
        responses = await asyncio.gather(*calls)
        records = [await gateway.record_of(each.headers["x-request-id"]) for each in responses]
        assert queue.kv.reserved_by_replica() == {}
    assert [record.disposition for record in records] == [Disposition.LENGTH] * 2
    told = records[1].routing[0].candidates[0].signals
    assert any(each.name == "kv_blocks_taken" and each.source == "replica-a" for each in told)


async def test_a_replica_that_does_not_show_its_blocks_refuses_nobody_and_the_record_says_so(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, deployment("a", terms=FULL)) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=2))
        record = await gateway.record_of(response.headers["x-request-id"])
    assert response.status_code == 200
    [decision] = record.routing
    assert "cannot tell: replica-a does not show its KV blocks" in decision.degraded
