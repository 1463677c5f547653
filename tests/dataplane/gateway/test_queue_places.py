"""Places in the queue of a real gateway: taken as it is decided, and given out fairly."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.policy import ClassPolicy, TenantLimits
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


def call(gateway: RunningGateway, tenant: str = "acme") -> asyncio.Task[httpx.Response]:
    headers = {"x-pilothouse-tenant": tenant}
    return asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1), headers=headers))


def waits(gateway: RunningGateway, num_requests: int) -> Any:
    return until(lambda: gateway.app.report().num_queued == num_requests)


async def test_of_a_crowd_that_comes_at_once_no_more_wait_than_may(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    classes = (ClassPolicy(name="only", max_queue=3),)
    async with serving(tmp_path, deployment("a", max_active=1, classes=classes)) as gateway:
        replica.hold()
        crowd = [call(gateway) for _ in range(40)]
        await until(lambda: sum(each.done() for each in crowd) == 36)
        assert gateway.app.report().num_queued == 3
        replica.resume()
        codes = Counter([(await each).status_code for each in crowd])
    assert codes == {200: 4, 503: 36}


async def test_who_waits_is_served_by_its_tenants_weight_and_not_by_who_came_first(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    tenants: Mapping[str, TenantLimits] = {"open": TenantLimits(weight=2)}
    served = deployment("a", max_active=1, terms={"tenants": tenants})
    async with serving(tmp_path, served) as gateway:
        replica.hold()
        calls = [call(gateway)]
        await until(lambda: len(replica.submitted) == 1)
        for number, tenant in enumerate(["acme"] * 6 + ["open"] * 4, 1):
            calls.append(call(gateway, tenant))
            await waits(gateway, number)
        live = gateway.app.gateway.registry.live()
        ages = [age for each in live if (age := each.queue_age_seconds()) is not None]
        assert ages == sorted(ages, reverse=True)
        assert len(ages) == 10
        replica.resume()
        await asyncio.gather(*calls)
        order = "".join(each.isolation_key[0] for each in replica.submitted)
    assert order == "a" + "aooaooaaaa"


async def test_clients_that_leave_the_queue_leave_nothing_in_it(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, deployment("a", max_active=1)) as gateway:
        replica.hold()
        calls = [call(gateway) for _ in range(12)]
        await waits(gateway, 11)
        for each in calls:
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await waits(gateway, 0)
        replica.resume()
        await gateway.settle()
        queue = gateway.app.gateway.fleet.queue_of("chat")
        assert queue.is_empty
        assert (queue.num_waiting_tokens, queue.num_waiting_bytes) == (0, 0)
