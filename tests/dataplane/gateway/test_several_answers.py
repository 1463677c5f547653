"""One request with several sequences: one attempt, one end, every answer its own."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from dataplane.latency import derive_latencies
from dataplane.lifecycle import Delivery, Disposition, EventKind
from dataplane.record import RequestRecord
from dataplane.recording import MAX_PACE_EVENTS
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    add_replica,
    deployment,
    running_gateway,
    say,
    serving,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, REPLICAS, ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


def count(record: RequestRecord, kind: EventKind) -> int:
    return sum(event.kind is kind for event in record.events)


async def test_all_answers_are_one_attempt_that_ends_with_the_last_of_them(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(n=3, max_tokens=5))
        record = await gateway.record_of(response.headers["x-request-id"])
    assert response.is_success
    assert len(replica.submitted) == len(record.replica_ids) == 1
    assert replica.submitted[0].sampling.num_sequences == 3
    assert count(record, EventKind.SCHEDULED) == count(record, EventKind.RELEASED) == 1
    assert count(record, EventKind.FIRST_TOKEN) == count(record, EventKind.FINISHED) == 3
    assert {event.sequence for event in record.events} == {0, 1, 2}
    assert (record.disposition, record.delivery) == (Disposition.LENGTH, Delivery.COMPLETE)
    assert record.num_output_tokens == 5 + 4 + 3
    first_tokens = [e.at for e in record.events if e.kind is EventKind.FIRST_TOKEN]
    assert record.latencies.engine.ttft == min(first_tokens)


@pytest.mark.parametrize("num_steps", [0, 1, 2, 4, 6])
async def test_a_client_that_leaves_ends_all_answers(
    tmp_path: Path, replica: ScriptedReplica, num_steps: int
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        request = asyncio.create_task(gateway.http.post(CHAT, json=say(n=3, max_tokens=6)))
        await until(lambda: len(replica.submitted) == 1)
        replica.step(num_steps)
        await until(lambda: replica._steps.locked())  # every step that was given is taken
        request.cancel()
        await until(lambda: len(gateway.records) == 1)
        (record,) = gateway.records
    assert record.disposition is Disposition.CANCELLED
    assert replica.cancelled == [record.request_id]
    assert record.reason == "the client left"


async def test_a_replica_that_is_lost_ends_all_answers_with_one_error(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.step_seconds = 0.005
        body = say(n=2, max_tokens=400, stream=True)
        async with gateway.http.stream("POST", CHAT, json=body) as response:
            await until(lambda: gateway.app.gateway.registry.live()[0].has_written)
            replica.die()
            lines = [line async for line in response.aiter_lines() if line]
        record = await gateway.record_of(response.headers["x-request-id"])
    assert "replica-a is unavailable" in lines[-1]
    assert (record.disposition, record.delivery) == (Disposition.ERROR, Delivery.PARTIAL)
    assert count(record, EventKind.FINISHED) == 1


async def test_every_answer_takes_a_slot_and_gives_it_back(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        fleet = gateway.app.gateway.fleet

        def num_outstanding() -> list[int]:
            return [report.num_outstanding for report in fleet.reports()]

        many = asyncio.create_task(gateway.http.post(CHAT, json=say(n=5, max_tokens=6)))
        await until(lambda: num_outstanding() == [5])
        one = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: num_outstanding() == [6])  # 4 sequences at once, and 2 more
        late = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: fleet.queue_of("chat").num_waiting == 1)
        replica.resume()
        answers = await asyncio.gather(many, one, late)
    assert all(answer.is_success for answer in answers)


async def test_more_answers_than_slots_are_served(tmp_path: Path, replica: ScriptedReplica) -> None:
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(n=16, max_tokens=20))
    assert [choice["index"] for choice in response.json()["choices"]] == list(range(16))


async def test_recorded_content_holds_every_answer_under_its_number(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(
            CHAT, json=say(n=2, max_tokens=2), headers={"x-pilothouse-tenant": "open"}
        )
        record = await gateway.record_of(response.headers["x-request-id"])
    assert record.content is not None
    assert record.content.output == "[0] w0 w1 \n\n[1] 1w0 "


async def test_what_an_engine_turns_out_not_to_take_is_refused_when_it_is_there(
    tmp_path: Path,
) -> None:
    REPLICAS.clear()
    async with serving(tmp_path, unserved_seconds=5.0) as gateway:
        body = say(max_tokens=1, presence_penalty=1)
        request = asyncio.create_task(gateway.http.post(CHAT, json=body))
        await until(lambda: gateway.app.gateway.fleet.queue_of("chat").num_waiting == 1)
        late = add_replica("a", capabilities=BLIND)
        response = await request
    assert response.status_code == 400
    assert "'presence_penalty': not supported by the engine" in response.json()["error"]["message"]
    assert late.submitted == []
    REPLICAS.clear()


async def test_the_policys_limit_counts_answers_and_is_hard(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with running_gateway(tmp_path, snapshot(deployment("a", max_active=3))) as gateway:
        replica.hold()
        calls = [asyncio.create_task(gateway.http.post(CHAT, json=say(n=2))) for _ in range(3)]
        await until(lambda: gateway.app.report().num_queued == 2)
        await until(lambda: len(replica.submitted) == 1)
        assert gateway.app.gateway.fleet.held() == {"replica-a": 2}
        refused = await gateway.http.post(CHAT, json=say(n=4))
        replica.resume()
        assert [answer.status_code for answer in await asyncio.gather(*calls)] == [200] * 3
        await gateway.settle()
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"
    assert "lets a replica run at most 3 answers at once" in refused.json()["error"]["message"]


async def test_a_record_of_very_many_steps_joins_them_and_keeps_its_latencies(
    tmp_path: Path,
) -> None:
    num_tokens = 700
    long = replace(BLIND, max_model_len=None)
    add_replica("a", capabilities=long, step_seconds=0.0)
    served = replace(deployment("a"), max_model_len=None)
    async with running_gateway(tmp_path, snapshot(served)) as gateway:
        response = await gateway.http.post(CHAT, json=say(n=13, max_tokens=num_tokens))
        record = await gateway.record_of(response.headers["x-request-id"])
        whole = sum(num_tokens - index for index in range(13))
        assert response.json()["usage"]["completion_tokens"] == whole
        assert whole > MAX_PACE_EVENTS + 13
        assert count(record, EventKind.TOKENS) <= MAX_PACE_EVENTS
        assert count(record, EventKind.TOKENS) + record.num_joined_events == whole - 13
        assert sum(e.num_tokens or 0 for e in record.events if e.kind is EventKind.TOKENS) == (
            whole - 13
        )
        joined = derive_latencies(record.events, record.num_output_tokens)
        assert record.latencies.engine.max_gap is not None
        assert joined.engine.max_gap is not None
        assert record.latencies.engine.max_gap <= joined.engine.max_gap, "taken before the joining"
        assert record.latencies.engine.e2e == joined.engine.e2e
        await gateway.settle()
