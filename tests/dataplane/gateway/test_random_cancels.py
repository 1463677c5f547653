"""Clients that leave at random moments, under a policy with everything switched on, leave nothing
behind. The hundred thousand, with real engines, are `ops/bench/bench_endurance.py --cancels`."""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from dataplane.gateway.holdings import Held, find_broken, read_held
from dataplane.leases.kv_reservation import KVDemand
from dataplane.lifecycle import Disposition
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DegradeTerms,
    KVLimits,
    OverloadTerms,
    QueueLimits,
    RoutingTerms,
    TenantLimits,
    TenantPolicy,
)
from ops.endurance.attempt import Attempt, Kind
from ops.endurance.cancel_plan import TENANTS, plan_cancel
from ops.endurance.client import send_all
from tests.dataplane.gateway.running_gateway import (
    RunningGateway,
    add_replica,
    deployment,
    running_gateway,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, REPLICAS

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

NUM_ATTEMPTS = 120
EVERYTHING = AdmissionPolicyTerms(
    revision="everything@1",
    classes=(
        ClassPolicy(name="hurried", match='tenant.name == "hurried"', deadline_seconds=0.06),
        ClassPolicy(
            name="batch", match='tenant.name == "batch"', aging_per_second=5.0, max_queue=4
        ),
        ClassPolicy(name="interactive", priority=100, max_queue=12, deadline_seconds=5.0),
    ),
    max_active_per_replica=3,
    max_prompt_tokens_in_flight=3000,
    queue=QueueLimits(max_requests=12, max_tokens=3000, max_bytes=16_000, max_age_seconds=5.0),
    kv=KVLimits(),
    tenants={
        "default": TenantLimits(tokens_per_minute=1_000_000, max_concurrent=16),
        "heavy": TenantLimits(weight=4.0),
        "small": TenantLimits(tokens_per_minute=600, max_concurrent=2),
    },
    overload=OverloadTerms(
        shed=("batch",),
        degrade=DegradeTerms(queue_age_seconds=0.05, max_tokens=32, fallback="spare"),
        retry_budget=0.05,
    ),
    routing=RoutingTerms(policy="prefix", affinity_header="x-session-id"),
)

ONE_TOKEN = KVDemand(num_prompt_tokens=1, num_output_tokens=1)


def plans_while_looking(gateway: RunningGateway, seen: Counter[str]) -> Iterator[Attempt]:
    """Each next attempt, after a look at what is held for those under way."""
    for number in range(NUM_ATTEMPTS):
        assert find_broken(gateway.app.gateway) == []
        held = read_held(gateway.app.gateway)
        seen.update(kind for kind in Held if held[kind])
        yield plan_cancel(7, number)


async def test_whoever_leaves_at_a_random_moment_leaves_nothing_behind(tmp_path: Path) -> None:
    REPLICAS.clear()
    replicas = [add_replica(name, capabilities=BLIND, num_blocks=96) for name in ("a", "b", "c")]
    served = dataclasses.replace(deployment("a", "b"), policy=EVERYTHING)
    spare = deployment("c", name="spare", model_name="spare", max_active=2)
    enforced = dataclasses.replace(
        snapshot(served, spare), tenants=tuple(TenantPolicy(name=name) for name in TENANTS)
    )
    async with running_gateway(tmp_path, enforced) as gateway:
        queue = gateway.app.gateway.fleet.queue_of("chat")
        for replica_id in ("replica-a", "replica-b"):  # blocks are reserved once they are told of
            await until(lambda: queue.kv.room(replica_id, ONE_TOKEN).num_usable is not None)  # noqa: B023
        seen = Counter[str]()
        url = urlsplit(gateway.url)
        address = (url.hostname or "", url.port or 0)
        attempts = await send_all(address, plans_while_looking(gateway, seen), 40)
        await gateway.settle()
    assert not any(replica.held for replica in replicas)
    assert sum(attempt.has_left for attempt in attempts) > NUM_ATTEMPTS / 2
    # What it is about did happen.
    assert set(seen) == set(Held)
    ends = Counter(record.disposition for record in gateway.records)
    assert {Disposition.CANCELLED, Disposition.INVALID, Disposition.REJECTED} <= set(ends)
    num_whole_heads = sum(attempt.kind is not Kind.LEAVES_IN_HEAD for attempt in attempts)
    assert len(gateway.records) <= num_whole_heads
