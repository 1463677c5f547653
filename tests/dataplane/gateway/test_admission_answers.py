"""What callers are told where a policy refuses, sheds or degrades, by a real gateway."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from dataplane.decision import AdmissionOutcome
from dataplane.lifecycle import Disposition
from dataplane.policy import (
    ClassPolicy,
    DegradeTerms,
    OverloadTerms,
    QueueLimits,
    TenantLimits,
)
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    MODEL,
    RunningGateway,
    add_replica,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

GOLD = {"x-pilothouse-tenant": "acme"}
BY_TIER = (
    ClassPolicy(name="gold", match='tenant.tier == "gold"', priority=10),
    ClassPolicy(name="batch"),
)
Answer = asyncio.Task[httpx.Response]


def call(
    gateway: RunningGateway, headers: Mapping[str, str] | None = None, **fields: Any
) -> Answer:
    body = say(**({"max_tokens": 1} | fields))
    return asyncio.create_task(gateway.http.post(CHAT, json=body, headers=headers))


def num_waiting(gateway: RunningGateway) -> int:
    return gateway.app.report().num_queued


async def waiting(gateway: RunningGateway, num_requests: int) -> None:
    await until(lambda: num_waiting(gateway) == num_requests)


def spend_retries(gateway: RunningGateway) -> None:
    """Use up those that are free whatever the share is."""
    for _ in range(3):
        gateway.app.gateway.fleet.admission_of(
            gateway.app.gateway.enforced.snapshot.deployments[0]
        ).retries.note_retry()


@asynccontextmanager
async def busy(
    state_dir: Path, replica: ScriptedReplica, num_others: int = 0, **fields: Any
) -> AsyncIterator[tuple[RunningGateway, list[Answer]]]:
    """A gateway whose one slot is held by the first of the calls; so many others wait for it. At
    the end all of them are answered."""
    served = deployment("a", max_active=1, **fields)
    others = fields.get("others", ())
    async with serving(state_dir, served, *others) as gateway:
        replica.hold()
        calls = [call(gateway)]
        await until(lambda: len(replica.submitted) == 1)
        for number in range(num_others):
            calls.append(call(gateway))
            await waiting(gateway, number + 1)
        yield gateway, calls
        replica.resume()
        assert {(await each).status_code for each in calls} <= {200}


def error_of(response: httpx.Response) -> dict[str, Any]:
    error: dict[str, Any] = response.json()["error"]
    return error


async def test_a_refusal_names_its_kind_its_policy_and_a_time_and_is_recorded_with_its_signals(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    terms = {"queue": QueueLimits(max_requests=1)}
    async with busy(tmp_path, replica, 1, terms=terms) as (gateway, _):
        response = await call(gateway)
        record = await gateway.record_of(response.headers["x-request-id"])

    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1
    assert response.headers["x-pilothouse-policy"] == "policy@3"
    error = error_of(response)
    assert (error["code"], error["type"]) == ("queue_full", "service_unavailable_error")
    assert error["policy_revision"] == "policy@3"
    assert "1 requests are waiting, and limits.queue.requests is 1" in error["message"]
    assert record.decision is not None
    assert record.decision.outcome is AdmissionOutcome.REJECTED
    assert (record.decision.kind, record.decision.snapshot_version) == ("queue_full", 5)
    told = {signal.name: signal for signal in record.decision.signals}
    assert (told["waiting_requests"].value, told["waiting_requests"].limit) == (1, 1)
    # Nobody has begun after a wait yet: what is not known is no number.
    assert (told["drain_rate"].value, told["drain_rate"].is_used) == (None, False)


async def test_a_tenant_over_its_own_limits_is_answered_429_and_others_are_not(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    tenants = {"acme": TenantLimits(max_concurrent=1, tokens_per_minute=500)}
    async with serving(tmp_path, deployment("a", terms={"tenants": tenants})) as gateway:
        replica.hold()
        first = call(gateway, GOLD, max_tokens=40)
        await until(lambda: len(replica.submitted) == 1)
        second = await call(gateway, GOLD)
        other = call(gateway)
        replica.resume()
        assert [(await first).status_code, (await other).status_code] == [200, 200]
        await until(lambda: len(gateway.app.gateway.registry) == 0)
        # The 40 tokens that were generated, and its prompt, stay charged for a minute.
        tokens = await call(gateway, GOLD, max_tokens=480)
        record = await gateway.record_of(tokens.headers["x-request-id"])

    assert (second.status_code, error_of(second)["code"]) == (429, "tenant_concurrency")
    assert error_of(second)["type"] == "rate_limit_error"
    assert "max_concurrent is 1" in error_of(second)["message"]
    assert (tokens.status_code, error_of(tokens)["code"]) == (429, "tenant_tokens")
    assert 50 <= int(tokens.headers["retry-after"]) <= 60
    assert record.decision is not None
    [decisive] = [signal for signal in record.decision.signals if signal.is_decisive]
    assert (decisive.name, decisive.limit) == ("tenant_tokens", 500)


async def test_prompts_in_flight_are_bounded_until_they_are_released(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(
        tmp_path, deployment("a", terms={"max_prompt_tokens_in_flight": 3})
    ) as gateway:
        replica.hold()
        first = call(gateway)
        await until(lambda: len(replica.submitted) == 1)
        refused = await call(gateway)
        replica.resume()
        assert (await first).status_code == 200
        await until(lambda: len(gateway.app.gateway.registry) == 0)
        assert (await call(gateway)).status_code == 200

    assert (refused.status_code, error_of(refused)["code"]) == (503, "prompt_tokens")
    assert "at most 3 may be" in error_of(refused)["message"]


async def test_retries_that_would_have_to_wait_are_refused_once_their_budget_is_spent(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    terms = {"overload": OverloadTerms(retry_budget=0.1)}
    told = {"x-stainless-retry-count": "1"}
    async with busy(tmp_path, replica, terms=terms) as (gateway, calls):
        for number in range(3):  # a few are always within the budget
            calls.append(call(gateway, told, text=f"again {number}"))
            await waiting(gateway, number + 1)
        refused = await call(gateway, told, text="again and again")
        calls.append(call(gateway, text="for the first time"))
        await waiting(gateway, 4)

    assert (refused.status_code, error_of(refused)["code"]) == (503, "retry_budget")
    assert "its client says that it is retry 1, and 3 retries" in error_of(refused)["message"]
    assert refused.headers["x-should-retry"] == "false"


async def test_the_client_of_openai_stops_to_come_again_when_the_budget_is_spent(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    terms = {
        "overload": OverloadTerms(retry_budget=0.0),
        "queue": QueueLimits(max_requests=0),
    }
    async with busy(tmp_path, replica, terms=terms) as (gateway, _):
        before = gateway.app.gateway.registry.counts().arrived
        spend_retries(gateway)
        client = openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=5)
        with pytest.raises(openai.InternalServerError) as caught:
            await client.chat.completions.create(
                model=MODEL, messages=[{"role": "user", "content": "hello"}]
            )
        await client.close()
        num_calls = gateway.app.gateway.registry.counts().arrived - before

    assert caught.value.code == "retry_budget"
    # It came again once, after `queue_full`, and said so itself.
    assert num_calls == 2


async def test_the_same_body_of_the_same_tenant_is_a_retry_once_it_was_refused(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    terms = {"overload": OverloadTerms(retry_budget=0.0), "queue": QueueLimits(max_requests=0)}
    async with busy(tmp_path, replica, terms=terms) as (gateway, _):
        spend_retries(gateway)
        codes = [error_of(await call(gateway, text="the same"))["code"] for _ in range(2)]
        codes.append(error_of(await call(gateway, text="another"))["code"])
        codes.append(error_of(await call(gateway, GOLD, text="the same"))["code"])

    assert codes == ["queue_full", "retry_budget", "queue_full", "queue_full"]


async def test_a_lost_replica_costs_a_request_its_second_try_once_the_budget_is_spent(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    add_replica("b", capabilities=BLIND)
    terms = {"overload": OverloadTerms(retry_budget=0.0)}
    async with serving(tmp_path, deployment("a", "b", terms=terms)) as gateway:
        spend_retries(gateway)
        replica.die()
        answers = [await call(gateway) for _ in range(4)]

    failed = [answer for answer in answers if answer.status_code == 503]
    assert failed
    assert "the retry budget leaves no try on another replica" in error_of(failed[0])["message"]


async def test_who_waits_in_a_class_that_is_shed_makes_way_for_a_class_above(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    terms = {"overload": OverloadTerms(shed=("batch",)), "queue": QueueLimits(max_requests=1)}
    async with busy(tmp_path, replica, terms=terms, classes=BY_TIER) as (gateway, calls):
        batch = call(gateway)
        await waiting(gateway, 1)
        calls.append(call(gateway, GOLD))
        shed = await batch
        record = await gateway.record_of(shed.headers["x-request-id"])
        assert num_waiting(gateway) == 1
        refused = await call(gateway, GOLD)

    assert (shed.status_code, error_of(shed)["code"]) == (503, "shed")
    assert "made way for class gold" in error_of(shed)["message"]
    assert error_of(shed)["policy_revision"] == "policy@3"
    assert int(shed.headers["retry-after"]) >= 1
    assert record.disposition is Disposition.SHED
    assert error_of(refused)["code"] == "queue_full"


LATE = DegradeTerms(queue_age_seconds=0.02, max_tokens=2)


async def test_answers_are_shorter_while_somebody_waits_for_too_long_and_say_so_openly(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    terms = {"overload": OverloadTerms(degrade=LATE)}
    async with busy(tmp_path, replica, 1, terms=terms) as (gateway, calls):
        await asyncio.sleep(0.03)
        whole = call(gateway, max_tokens=9)
        stream = call(gateway, max_tokens=9, stream=True)
        short = call(gateway, max_tokens=1)
        await waiting(gateway, 4)
        calls += [whole, stream, short]
        replica.resume()
        answers = [await whole, await stream, await short]
        records = [await gateway.record_of(each.headers["x-request-id"]) for each in answers]

    for answer in answers[:2]:
        assert answer.headers["x-pilothouse-degraded"].startswith("max_tokens=2; queue age 0.")
    assert answers[0].json()["usage"]["completion_tokens"] == 2
    assert answers[0].json()["choices"][0]["finish_reason"] == "length"
    assert "x-pilothouse-degraded" not in answers[2].headers
    decisions = [record.decision for record in records]
    assert [each.outcome for each in decisions if each] == ["degraded", "degraded", "admitted"]
    assert decisions[0] is not None
    assert decisions[0].degraded == ("max_tokens=2",)
    assert (decisions[0].asked_output_tokens, records[0].max_output_tokens) == (9, 2)


async def test_a_fallback_answers_in_the_place_of_a_deployment_that_is_late_while_it_has_room(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    other = add_replica("b", capabilities=BLIND)
    small = deployment(
        "b",
        name="small",
        model_name="tinier",
        classes=(ClassPolicy(name="rest", max_queue=0),),
        max_active=1,
    )
    degrade = DegradeTerms(queue_age_seconds=0.02, fallback="small")
    terms = {"overload": OverloadTerms(degrade=degrade)}
    chat = deployment("a", max_active=1, terms=terms)
    async with serving(tmp_path, chat, small) as gateway:
        replica.hold()
        other.hold()
        calls = [call(gateway), call(gateway)]
        await waiting(gateway, 1)
        await asyncio.sleep(0.03)
        late = call(gateway)
        await until(lambda: len(other.submitted) == 1)
        calls.append(call(gateway))  # small takes no more than one: it waits where it was sent
        await waiting(gateway, 2)
        other.resume()
        replica.resume()
        answer = await late
        record = await gateway.record_of(answer.headers["x-request-id"])
        last = [await each for each in calls][-1]

    assert answer.headers["x-pilothouse-degraded"].startswith("fallback=small; queue age 0.")
    assert answer.json()["model"] == "small"
    assert (record.deployment, record.request_class) == ("small", "rest")
    assert record.decision is not None
    assert record.decision.fallback == "small"
    assert last.status_code == 200
    assert last.json()["model"] == MODEL
    assert "x-pilothouse-degraded" not in last.headers


async def test_nothing_is_held_for_clients_that_leave_at_any_moment(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    terms = {
        "tenants": {"default": TenantLimits(max_concurrent=6, tokens_per_minute=10**6)},
        "max_prompt_tokens_in_flight": 30,
        "queue": QueueLimits(max_requests=4),
        "overload": OverloadTerms(shed=("batch",), degrade=LATE, retry_budget=0.5),
    }
    chance = random.Random(1)
    served = deployment("a", max_active=2, classes=BY_TIER, terms=terms)
    async with serving(tmp_path, served) as gateway:

        async def come_and_go(number: int) -> None:
            await asyncio.sleep(chance.random() * 0.4)
            headers = GOLD if number % 3 else None
            task = call(gateway, headers, max_tokens=20, text=f"call {number % 40}")
            await asyncio.wait({task}, timeout=chance.random() * 0.05)
            task.cancel()
            await asyncio.wait({task})

        await asyncio.gather(*(come_and_go(number) for number in range(150)))
        await until(lambda: len(gateway.app.gateway.registry) == 0)
        gateway.app.gateway.registry.counts().check_integrity()


async def test_whoever_is_refused_at_any_length_is_not_counted_first(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    by_length = (
        ClassPolicy(name="long", match="request.num_prompt_tokens > 1000"),
        ClassPolicy(name="rest"),
    )
    terms = {"queue": QueueLimits(max_requests=0)}
    async with busy(tmp_path / "plain", replica, terms=terms) as (gateway, _):
        refused = await call(gateway)
        uncounted = await gateway.record_of(refused.headers["x-request-id"])
    async with busy(tmp_path / "by-length", replica, terms=terms, classes=by_length) as (
        gateway,
        _,
    ):
        response = await call(gateway)
        counted = await gateway.record_of(response.headers["x-request-id"])

    assert [error_of(each)["code"] for each in (refused, response)] == ["queue_full"] * 2
    assert uncounted.num_prompt_tokens is None
    assert [event.kind for event in uncounted.events[:3]] == ["arrived", "received", "rejected"]
    assert counted.num_prompt_tokens
