"""A request that is over leaves no cycles: its memory comes back at once, and the collector, which
stops every stream while it looks, has little to look for."""

import asyncio
import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dataplane.policy import ClassPolicy, OverloadTerms, QueueLimits, TenantLimits
from tests.dataplane.gateway.running_gateway import CHAT, deployment, say, serving, until
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


@pytest.fixture
def saved_garbage() -> Any:
    """What only a look for cycles frees, kept instead."""
    gc.collect()
    gc.disable()
    try:
        yield gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_of_a_request_waits_for_the_collector(
    stream: bool, tmp_path: Path, replica: ScriptedReplica, saved_garbage: list[Any]
) -> None:
    async with serving(tmp_path, deployment("a")) as gateway:
        for number in range(5):
            response = await gateway.http.post(CHAT, json=say(max_tokens=8, stream=stream))
            assert response.status_code == 200
            await until(lambda: len(gateway.records) == number + 1)  # noqa: B023
        left = _left_to_the_collector(saved_garbage)
    assert left == []


async def test_nor_does_anything_of_those_that_wait_are_shed_or_refused(
    tmp_path: Path, replica: ScriptedReplica, saved_garbage: list[Any]
) -> None:
    gold = ClassPolicy(name="gold", match='request.headers["x-gold"] == "1"', priority=10)
    terms = {
        "queue": QueueLimits(max_requests=2),
        "overload": OverloadTerms(shed=("batch",)),
        "tenants": {"default": TenantLimits(tokens_per_minute=10**6, max_concurrent=100)},
    }
    classes = (gold, ClassPolicy(name="batch", deadline_seconds=30.0))
    policy = deployment("a", max_active=1, classes=classes, terms=terms)
    async with serving(tmp_path, policy) as gateway:
        replica.hold()
        queue = gateway.app.gateway.fleet.queue_of("chat")

        async def call(is_gold: bool, stream: bool) -> int:
            header = {"x-gold": str(int(is_gold))}
            told = await gateway.http.post(
                CHAT, json=say(max_tokens=2, stream=stream), headers=header
            )
            return told.status_code

        calls = [asyncio.create_task(call(False, stream=False))]
        await until(lambda: bool(replica.held))
        calls += [asyncio.create_task(call(False, stream)) for stream in (True, False, True)]
        await until(lambda: queue.num_waiting == 2 and len(gateway.records) == 1)
        calls += [asyncio.create_task(call(True, stream)) for stream in (True, False)]
        await until(lambda: len(gateway.records) == 3)
        replica.resume()
        statuses = [await each for each in calls]
        await until(lambda: len(gateway.records) == len(calls))
        ends = Counter(str(record.disposition) for record in gateway.records)
        left = _left_to_the_collector(saved_garbage)
    assert sorted(statuses) == [200, 200, 200, 503, 503, 503]
    assert ends == {"length": 3, "shed": 2, "rejected": 1}
    assert left == []


def _left_to_the_collector(saved_garbage: list[Any]) -> list[type]:
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    kinds = [type(each) for each in saved_garbage]
    return [kind for kind in kinds if kind.__module__.startswith("dataplane")]
