"""A replica that tells what cannot be: its requests end, and nobody counts with what it said."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from dataplane.engine import EngineEvent, EngineUse
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.policy import KVLimits, KVReserve, RoutingTerms, TenantLimits
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    add_replica,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import CAPABILITIES, ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


@pytest.mark.parametrize(
    "told",
    [
        {"num_output_tokens": -5},
        {"num_prompt_tokens": 10**12},
        {"status_code": 42, "disposition": Disposition.ERROR},
    ],
)
async def test_an_end_that_cannot_be_is_an_error_and_no_number_of_it_is_recorded(
    tmp_path: Path, replica: ScriptedReplica, told: dict[str, Any]
) -> None:
    replica.finish_instead = EngineEvent(
        **{"kind": EventKind.FINISHED, "disposition": Disposition.LENGTH} | told
    )
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=1))
        record = await gateway.record_of(response.headers["x-request-id"])
    assert response.status_code == 502
    assert record.disposition is Disposition.ERROR
    assert "broke its contract" in (record.reason or "")
    assert record.num_output_tokens == 0


async def test_counts_above_what_was_sent_are_neither_told_recorded_nor_charged(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.finish_instead = EngineEvent(
        kind=EventKind.FINISHED,
        disposition=Disposition.LENGTH,
        num_prompt_tokens=10**7,
        num_output_tokens=10**7,
    )
    terms = {"tenants": {"default": TenantLimits(tokens_per_minute=1000)}}
    async with serving(tmp_path, deployment("a", terms=terms)) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=1))
        record = await gateway.record_of(response.headers["x-request-id"])
        replica.finish_instead = None
        again = await gateway.http.post(CHAT, json=say(max_tokens=1))
    assert response.status_code == 200
    assert response.json()["usage"]["total_tokens"] == record.num_prompt_tokens
    assert record.num_output_tokens == 0
    assert record.output_tokens_observability is Observability.INFERRED
    assert record.prompt_tokens_observability is Observability.INFERRED
    assert again.status_code == 200


async def test_more_cached_tokens_than_a_prompt_can_have_are_as_if_none_were_told(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.num_cached_tokens = 10**6
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=1))
        record = await gateway.record_of(response.headers["x-request-id"])
    assert response.status_code == 200
    assert "prompt_tokens_details" not in response.json()["usage"]
    assert record.num_cached_tokens is None
    assert all(event.num_cached_tokens is None for event in record.events)


async def test_a_replica_that_counts_what_cannot_be_is_ejected(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    honest = add_replica("b", capabilities=replica.capabilities)
    replica.num_cached_tokens = 10**6
    ejection = {"eject_seconds": 60.0, "return_seconds": 1.0}
    terms = {"routing": RoutingTerms(settings={"ejection": ejection})}
    async with serving(tmp_path, deployment("a", "b", terms=terms)) as gateway:
        for _ in range(20):
            answer = await gateway.http.post(CHAT, json=say(max_tokens=1))
            assert answer.status_code == 200
    assert len(replica.submitted) < 10 < len(honest.submitted)


async def test_what_has_not_happened_yet_is_not_believed(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.capabilities = CAPABILITIES
    replica.told_ahead_seconds = 3600.0
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=1))
    assert response.status_code == 502
    assert "tells of 3600" in response.json()["error"]["message"]


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
async def test_a_use_that_cannot_be_is_metered_as_if_none_was_told(
    tmp_path: Path, replica: ScriptedReplica, seconds: float
) -> None:
    replica.used = EngineUse(engine_seconds=seconds)
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=1))
        record = await gateway.record_of(response.headers["x-request-id"])
    assert response.status_code == 200
    assert record.metered is not None
    assert record.metered.engine_observability is Observability.INFERRED
    assert 0 < record.metered.engine_seconds < 60


@pytest.mark.parametrize(
    "told", [{"block_size": 0}, {"age_seconds": math.nan}, {"num_running": -1000}]
)
async def test_a_snapshot_that_cannot_be_is_not_used_and_its_requests_are_served(
    tmp_path: Path, replica: ScriptedReplica, told: dict[str, Any]
) -> None:
    replica.num_blocks, replica.told_stats = 64, told
    kv = {"kv": KVLimits(reserve=KVReserve.FULL)}
    async with serving(tmp_path, deployment("a", terms=kv)) as gateway:
        [report] = gateway.app.gateway.fleet.reports()
        await until(lambda: gateway.app.gateway.fleet.reports()[0].not_believed is not None)
        response = await gateway.http.post(CHAT, json=say(max_tokens=1))
        [report] = gateway.app.gateway.fleet.reports()
        assert report.stats is None
        assert report.is_connected
    assert response.status_code == 200


async def test_a_liar_gets_no_more_than_the_honest_one(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    honest = add_replica("b", capabilities=replica.capabilities)
    replica.told_stats = {"num_running": -1000, "num_waiting": -1000, "age_seconds": -1e9}
    replica.step_seconds = honest.step_seconds = 0.005
    async with serving(tmp_path, deployment("a", "b", max_active=2)) as gateway:
        await asyncio.gather(*(gateway.http.post(CHAT, json=say(max_tokens=3)) for _ in range(40)))
    assert len(replica.submitted) + len(honest.submitted) == 40
    assert 12 <= len(replica.submitted) <= 28
