"""What a gateway judges a request by, and what it measures for that."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import Verdict
from dataplane.latency import Boundary
from dataplane.lifecycle import AnswerPart
from dataplane.policy import ClassPolicy, ContractPolicy, DeploymentPolicy, encode_snapshot
from dataplane.record import RequestRecord, decode_record, encode_record
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    deployment,
    running_gateway,
    say,
    serving,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


def _promising(
    revision: str, *signals: ObjectiveSignal, at_most: float | None = None, max_queue: int = 512
) -> DeploymentPolicy:
    """One slot, and a class that was promised all `signals`."""
    terms = ContractTerms(
        boundary=Boundary.SERVER,
        objectives=tuple(
            Objective(signal=signal, target=0.99, at_most_seconds=at_most) for signal in signals
        ),
    )
    return deployment(
        "a",
        classes=(ClassPolicy(name="only", max_queue=max_queue),),
        max_active=1,
        contract=ContractPolicy(revision=revision, terms_by_class={"only": terms}),
    )


def _verdicts(record: RequestRecord) -> dict[ObjectiveSignal, Verdict]:
    assert record.judgement is not None
    return {result.signal: result.verdict for result in record.judgement.results}


@pytest.mark.parametrize("is_stream", [True, False])
async def test_the_first_answer_of_a_reasoning_model_is_told_apart_from_its_first_token(
    tmp_path: Path, replica: ScriptedReplica, is_stream: bool
) -> None:
    replica.num_reasoning, replica.step_seconds = 4, 0.01
    async with serving(tmp_path) as gateway:
        answer = await gateway.http.post(CHAT, json=say(max_tokens=6, stream=is_stream))
        assert answer.status_code == 200
        record = await gateway.last_record(0)
    engine, server = record.latencies.engine, record.latencies.server
    assert engine.ttft is not None
    assert engine.first_answer is not None
    assert server.ttft is not None
    assert server.first_answer is not None
    assert engine.first_answer - engine.ttft > 0.03, "four words of reasoning lie between them"
    assert (server.first_answer > server.ttft) is is_stream, "whole, it comes in one piece"
    begins = [event.begins for event in record.events if event.begins is not None]
    parts = [AnswerPart.REASONING, AnswerPart.ANSWER]
    assert sorted(begins) == sorted(parts * 2 if is_stream else parts)
    assert decode_record(encode_record(record)) == record


async def test_an_answer_that_is_all_reasoning_never_began(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.num_reasoning = 99
    promised = _promising("c@1", ObjectiveSignal.TTFT, ObjectiveSignal.FIRST_ANSWER, at_most=9.0)
    async with serving(tmp_path, promised) as gateway:
        await gateway.http.post(CHAT, json=say(max_tokens=3, stream=True))
        record = await gateway.last_record(0)
    assert record.latencies.server.first_answer is None
    assert _verdicts(record) == {
        ObjectiveSignal.TTFT: Verdict.GOOD,
        ObjectiveSignal.FIRST_ANSWER: Verdict.NOT_APPLICABLE,
    }


async def test_without_reasoning_the_answer_begins_with_the_first_token(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        await gateway.http.post(CHAT, json=say(max_tokens=3, stream=True))
        record = await gateway.last_record(0)
    for boundary in (Boundary.ENGINE, Boundary.SERVER):
        at = record.latencies.at(boundary)
        assert at.first_answer == at.ttft is not None


async def test_who_was_refused_was_not_accepted_and_who_was_let_in_was(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.hold()
    promised = _promising(
        "c@1", ObjectiveSignal.ACCEPTANCE, ObjectiveSignal.AVAILABILITY, max_queue=0
    )
    async with serving(tmp_path, promised) as gateway:
        served = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=2)))
        await until(lambda: bool(replica.held))
        refused = await gateway.http.post(CHAT, json=say())
        assert refused.status_code == 503
        replica.resume()
        assert (await served).status_code == 200
        await until(lambda: len(gateway.records) == 2)
        page = (await gateway.http.get("/metrics")).text
    verdicts = [_verdicts(record) for record in gateway.records]
    both = (ObjectiveSignal.ACCEPTANCE, ObjectiveSignal.AVAILABILITY)
    assert verdicts == [dict.fromkeys(both, Verdict.BAD), dict.fromkeys(both, Verdict.GOOD)]
    labels = 'deployment="chat",objective="acceptance",request_class="only"'
    assert f"pilothouse_gateway_objective_judged_total{{{labels}}} 2.0" in page
    assert f"pilothouse_gateway_objective_good_total{{{labels}}} 1.0" in page


async def test_a_request_is_judged_by_the_contract_in_force_when_it_arrived(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.hold()
    generous = _promising("c@1", ObjectiveSignal.TTFT, at_most=60.0)
    strict = _promising("c@2", ObjectiveSignal.TTFT, at_most=1e-9)
    async with running_gateway(tmp_path, snapshot(generous)) as gateway:
        before = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=2)))
        await until(lambda: bool(replica.held))
        gateway.app.gateway.enforce(encode_snapshot(snapshot(strict, version=6)))
        replica.resume()
        await before
        await gateway.http.post(CHAT, json=say(max_tokens=2))
        await until(lambda: len(gateway.records) == 2)
    judged = {each.contract_revision: _verdicts(each) for each in gateway.records}
    assert judged == {
        "c@1": {ObjectiveSignal.TTFT: Verdict.GOOD},
        "c@2": {ObjectiveSignal.TTFT: Verdict.BAD},
    }


async def test_a_body_that_takes_its_time_is_promised_what_held_at_its_first_byte(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    generous = _promising("c@1", ObjectiveSignal.TTFT, at_most=60.0)
    strict = _promising("c@2", ObjectiveSignal.TTFT, at_most=1e-9)
    async with running_gateway(tmp_path, snapshot(generous)) as gateway:

        async def body() -> AsyncIterator[bytes]:
            whole = msgspec.json.encode(say(max_tokens=2))
            yield whole[:10]
            await until(lambda: len(gateway.app.gateway.registry) == 1)
            gateway.app.gateway.enforce(encode_snapshot(snapshot(strict, version=6)))
            yield whole[10:]

        headers = {"content-type": "application/json"}
        answer = await gateway.http.post(CHAT, content=body(), headers=headers)
        assert answer.status_code == 200
        record = await gateway.last_record(0)
    assert record.snapshot_version == 6, "whether it may enter is decided later"
    assert record.contract_revision == "c@1"
    assert _verdicts(record) == {ObjectiveSignal.TTFT: Verdict.GOOD}
