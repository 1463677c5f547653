"""What a gateway shows of what it holds: everything while it holds it, and nothing afterwards."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.gateway.holdings import Held
from dataplane.leases.kv_reservation import KVDemand
from dataplane.policy import KVLimits, KVReserve, OverloadTerms, TenantLimits
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

EVERYTHING: dict[str, Any] = {
    "max_prompt_tokens_in_flight": 1000,
    "kv": KVLimits(reserve=KVReserve.FULL),
    "tenants": {"default": TenantLimits(tokens_per_minute=100_000, max_concurrent=8)},
    "overload": OverloadTerms(retry_budget=0.1),
}
ANY = KVDemand(num_prompt_tokens=1, num_output_tokens=0)


async def holdings_of(gateway: RunningGateway) -> dict[str, Any]:
    response = await gateway.http.get("/internal/holdings")
    told: dict[str, Any] = response.json()
    return told


async def test_everything_that_requests_hold_is_shown_while_they_hold_it_and_gone_with_them(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.num_blocks = 64
    async with serving(tmp_path, deployment("a", max_active=1, terms=EVERYTHING)) as gateway:
        queue = gateway.app.gateway.fleet.queue_of("chat")
        await until(lambda: queue.kv.room("replica-a", ANY).num_usable is not None)
        before = await holdings_of(gateway)
        replica.hold()
        calls = [
            asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=40))) for _ in range(2)
        ]
        await until(lambda: (queue.num_waiting, len(replica.submitted)) == (1, 1))
        during = await holdings_of(gateway)
        scraped = (await gateway.http.get("/metrics")).text
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        replica.resume()
        await gateway.settle()
        after = await holdings_of(gateway)
    assert {kind for kind, number in during["held"].items() if number} == set(Held)
    assert 'pilothouse_gateway_held{kind="slots"} 1.0' in scraped
    assert before["held"] == after["held"] == dict.fromkeys(Held, 0)
    assert before["broken"] == during["broken"] == after["broken"] == []
    assert after["remembered"]["unanswered_bodies"] == 1
    assert after["tasks"] == before["tasks"]


async def test_a_count_that_nobody_holds_is_told(tmp_path: Path, replica: ScriptedReplica) -> None:
    async with serving(tmp_path, deployment("a", terms=EVERYTHING)) as gateway:
        answer: httpx.Response = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert answer.status_code == 200
        prompt_tokens = gateway.app.gateway.fleet.admission_of(
            gateway.app.gateway.enforced.snapshot.deployments[0]
        ).prompt_tokens
        prompt_tokens.num_tokens += 7
        told = await holdings_of(gateway)
        prompt_tokens.num_tokens -= 7
    assert told["held"]["prompt_tokens"] == 7
    assert told["broken"] == ["nobody holds the 7 prompt tokens in flight"]
