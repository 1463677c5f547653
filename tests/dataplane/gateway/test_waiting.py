"""Requests that wait: their place, their deadline, and what has no room at all."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dataplane.lifecycle import Delivery, Disposition
from dataplane.policy import ClassPolicy
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    deployment,
    find_tokenizer,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import CAPABILITIES, ScriptedReplica
from tests.dataplane.gateway.told_life import end_of

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


async def test_the_live_list_tells_the_place_in_the_queue_and_what_each_waits_for(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    classes = (
        ClassPolicy(name="chat", match="request.stream", priority=10),
        ClassPolicy(name="batch", priority=1),
    )
    async with serving(tmp_path, deployment("a", max_active=1, classes=classes)) as gateway:

        def has_placed(number: int) -> bool:
            return len(replica.submitted) + gateway.app.report().num_queued == number

        replica.hold()
        calls = []
        for number, is_stream in enumerate([False, False, True, False], 1):
            body = say(max_tokens=1, stream=is_stream)
            calls.append(asyncio.create_task(gateway.http.post(CHAT, json=body)))
            await until(partial(has_placed, number))
        told = (await gateway.http.get("/internal/requests")).json()["requests"]
        replica.resume()
        assert [(await call).status_code for call in calls] == [200] * 4
        settled = (await gateway.http.get("/internal/requests")).json()["requests"]

    assert [(each["request_class"], each["queue_position"]) for each in told] == [
        ("batch", None),
        ("batch", 2),
        ("chat", 1),
        ("batch", 3),
    ]
    assert [each["waits_for"] for each in told] == [
        "the engine to schedule it",
        "a slot",
        "a slot",
        "a slot",
    ]
    assert all(each["age_seconds"] > 0 for each in told)
    assert [each["queue_position"] for each in settled] == [None] * len(settled)


async def test_a_full_queue_is_a_lack_of_capacity_answered_503_with_a_time_to_retry(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    classes = (ClassPolicy(name="only", max_queue=1),)
    async with serving(tmp_path, deployment("a", max_active=1, classes=classes)) as gateway:
        replica.hold()
        calls = [
            asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1))) for _ in range(2)
        ]
        await until(lambda: gateway.app.report().num_queued == 1)
        rejected = await gateway.http.post(CHAT, json=say())
        assert rejected.status_code == 503
        assert rejected.headers["retry-after"] == "1"
        assert rejected.json()["error"]["code"] == "queue_full"
        record = await gateway.record_of(rejected.headers["x-request-id"])
        assert end_of(record) == (Disposition.REJECTED, Delivery.NONE, 503)
        assert record.request_class == "only"
        gateway.app.gateway.registry.counts().check_integrity()
        replica.resume()
        assert [(await call).status_code for call in calls] == [200, 200]


async def test_a_request_past_its_deadline_is_answered_503(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    classes = (ClassPolicy(name="only", deadline_seconds=0.1),)
    async with serving(tmp_path, deployment("a", max_active=1, classes=classes)) as gateway:
        replica.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: len(replica.submitted) == 1)
        late = await gateway.http.post(CHAT, json=say(stream=True))
        assert late.status_code == 503
        assert late.json()["error"]["code"] == "deadline"
        record = await gateway.record_of(late.headers["x-request-id"])
        assert end_of(record) == (Disposition.DEADLINE, Delivery.NONE, 503)
        replica.resume()
        await running


@pytest.mark.parametrize(("asked", "given"), [(None, 512 - 32), (500, 500)])
async def test_an_answer_of_no_asked_length_fits_the_replica_that_came_after_it_was_counted(
    tmp_path: Path, replica: ScriptedReplica, asked: int | None, given: int
) -> None:
    replica.capabilities = CAPABILITIES
    replica.die()
    served = replace(deployment("a", tokenizer=find_tokenizer()), max_model_len=None)
    async with serving(tmp_path, served) as gateway:
        body = say() if asked is None else say(max_tokens=asked)
        call = asyncio.create_task(gateway.http.post(CHAT, json=body))
        await until(lambda: gateway.app.report().num_queued == 1)
        replica.is_dead = False
        answer = await call
        assert answer.status_code == 200
        num_prompt = answer.json()["usage"]["prompt_tokens"]
        assert (num_prompt, replica.submitted[0].sampling.max_output_tokens) == (32, given)


async def test_without_any_replica_the_wait_is_bounded(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.die()
    async with serving(tmp_path, unserved_seconds=0.1) as gateway:
        response = await gateway.http.post(CHAT, json=say())
        assert response.status_code == 503
        assert "no replica could be reached" in response.json()["error"]["message"]
        assert "nothing listens there" in (gateway.app.report().replicas[0].error or "")
