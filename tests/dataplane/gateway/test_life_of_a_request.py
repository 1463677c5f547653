"""What happens to requests on their way: every end has one disposition and leaves nothing."""

import asyncio
import json
import socket
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.engine import EngineEvent
from dataplane.judgement import Verdict
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, EventKind, Observability, find_event
from dataplane.policy import ClassPolicy, ContractPolicy
from dataplane.record import RequestRecord
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    COMPLETIONS,
    MODEL,
    add_replica,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


def kinds(record: RequestRecord) -> list[EventKind]:
    return [event.kind for event in record.events]


def end_of(record: RequestRecord) -> tuple[Disposition, Delivery, int | None]:
    return record.disposition, record.delivery, record.status_code


async def read_stream(response: httpx.Response) -> list[dict[str, Any] | str]:
    """Every event's data, decoded, but for the end mark."""
    lines = [line async for line in response.aiter_lines() if line]
    data = [line.removeprefix("data: ") for line in lines]
    return [item if item == "[DONE]" else json.loads(item) for item in data]


async def test_a_streamed_request_shows_every_event_of_its_life_in_order(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        response = await gateway.http.post(
            CHAT, json=say(max_tokens=2, stream=True), headers={"traceparent": traceparent}
        )
        record = await gateway.record_of(response.headers["x-request-id"])
    assert kinds(record)[:7] == [
        EventKind.ARRIVED,
        EventKind.RECEIVED,
        EventKind.ADMITTED,
        EventKind.SCHEDULED,
        EventKind.PREFILL_CHUNK,
        EventKind.FIRST_TOKEN,
        EventKind.FIRST_WRITE,
    ]
    # From here on the engine side and the client side run beside each other.
    assert sorted(kinds(record)[7:]) == sorted(
        [
            *(EventKind.TOKENS, EventKind.WRITE, EventKind.FINISHED),
            *(EventKind.LAST_WRITE, EventKind.RELEASED),
        ]
    )
    assert end_of(record) == (Disposition.LENGTH, Delivery.COMPLETE, 200)
    assert record.trace.trace_id == "0af7651916cd43dd8448eb211c80319c"
    assert record.trace.parent_span_id == "b7ad6b7169203331"
    assert (record.policy_revision, record.snapshot_version) == ("policy@3", 5)
    assert record.replica_ids == ("replica-a",)
    assert record.num_output_tokens == 2
    writes = [e for e in record.events if e.kind in (EventKind.FIRST_WRITE, EventKind.WRITE)]
    assert sum(event.num_tokens or 0 for event in writes) == 2
    assert record.latencies.queue_time is not None
    assert record.latencies.server.ttft is not None
    assert record.latencies.engine.ttft is not None
    assert record.latencies.server.ttft >= record.latencies.engine.ttft
    # The engine's events carry the transit that their anchoring hides, the gateway's none.
    scheduled, written = (
        find_event(record.events, kind) for kind in (EventKind.SCHEDULED, EventKind.FIRST_WRITE)
    )
    assert scheduled is not None
    assert written is not None
    assert 0 < scheduled.at_error < 0.1
    assert written.at_error == 0


async def test_a_client_that_leaves_in_decode_is_cancelled_and_released(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.step_seconds = 0.005
        async with gateway.http.stream("POST", CHAT, json=say(max_tokens=400, stream=True)) as r:
            request_id = r.headers["x-request-id"]
            async for _ in r.aiter_lines():
                break
        record = await gateway.record_of(request_id)
    assert end_of(record) == (Disposition.CANCELLED, Delivery.PARTIAL, 200)
    assert record.reason == "the client left"
    assert kinds(record)[-1] is EventKind.RELEASED
    assert record.num_output_tokens is not None
    assert record.num_output_tokens < 400
    last_write = find_event(record.events, EventKind.LAST_WRITE)
    released = find_event(record.events, EventKind.RELEASED)
    assert last_write is not None
    assert released is not None
    # One step and 100 ms is the goal; a loaded test machine gets more room.
    assert released.at - last_write.at < 0.5


@pytest.mark.parametrize("is_stream", [True, False])
async def test_a_client_that_leaves_in_prefill_gets_nothing_and_leaves_nothing(
    tmp_path: Path, replica: ScriptedReplica, is_stream: bool
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(stream=is_stream)))
        await until(lambda: len(replica.submitted) == 1)
        replica.step()  # scheduled, and no token yet
        await until(lambda: [r.state for r in gateway.app.gateway.registry.live()] == ["prefill"])
        call.cancel()
        record = await gateway.last_record(0)
    assert end_of(record) == (Disposition.CANCELLED, Delivery.NONE, None)
    assert EventKind.RELEASED in kinds(record)


async def test_a_client_that_leaves_before_it_was_scheduled_is_taken_out_of_the_engine(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say()))
        await until(lambda: len(replica.submitted) == 1)
        call.cancel()
        record = await gateway.last_record(0)
    assert end_of(record) == (Disposition.CANCELLED, Delivery.NONE, None)
    assert EventKind.SCHEDULED not in kinds(record)


async def test_a_client_that_leaves_the_queue_never_reaches_an_engine(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, deployment("a", max_active=1)) as gateway:
        replica.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: len(replica.submitted) == 1)
        waiting = asyncio.create_task(gateway.http.post(CHAT, json=say()))
        await until(lambda: len(gateway.app.gateway.registry) == 2)
        await until(lambda: gateway.app.report().num_queued == 1)
        waiting.cancel()
        record = await gateway.last_record(0)
        assert end_of(record) == (Disposition.CANCELLED, Delivery.NONE, None)
        assert record.replica_ids == ()
        replica.resume()
        assert (await running).status_code == 200
    assert len(replica.submitted) == 1


async def test_an_engine_that_ignores_a_cancel_is_given_up_after_a_bound(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, release_seconds=0.2) as gateway:
        replica.ignores_cancel = True
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say()))
        await until(lambda: len(replica.submitted) == 1)
        call.cancel()
        record = await gateway.last_record(0)
    assert record.disposition is Disposition.CANCELLED
    assert record.reason == "the client left; the engine did not confirm the end"
    assert EventKind.RELEASED not in kinds(record)


async def test_an_answer_that_ends_before_its_cancel_arrives_keeps_its_own_end(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.ignores_cancel = True
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=1)))
        await until(lambda: len(replica.submitted) == 1)
        call.cancel()
        await until(lambda: len(replica.cancelled) == 1)
        replica.resume()
        record = await gateway.last_record(0)
    assert end_of(record) == (Disposition.LENGTH, Delivery.NONE, None)
    assert record.reason is None


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


async def test_without_any_replica_the_wait_is_bounded(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.die()
    async with serving(tmp_path, unserved_seconds=0.1) as gateway:
        response = await gateway.http.post(CHAT, json=say())
        assert response.status_code == 503
        assert "no replica could be reached" in response.json()["error"]["message"]
        assert "nothing listens there" in (gateway.app.report().replicas[0].error or "")


async def test_a_replica_lost_before_the_first_byte_is_replaced_by_another(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    other = add_replica("b", capabilities=BLIND, num_cached_tokens=2)
    replica.num_cached_tokens = 3
    async with serving(tmp_path, deployment("a", "b")) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=2, stream=True)))
        await until(lambda: len(replica.submitted) == 1)
        replica.step()
        await until(lambda: [r.state for r in gateway.app.gateway.registry.live()] == ["prefill"])
        replica.die()
        response = await call
        assert response.status_code == 200
        record = await gateway.record_of(response.headers["x-request-id"])
    assert record.replica_ids == ("replica-a", "replica-b")
    assert [e.attempt for e in record.events if e.kind is EventKind.SCHEDULED] == [0, 1]
    assert end_of(record) == (Disposition.LENGTH, Delivery.COMPLETE, 200)
    assert [request.attempt for request in other.submitted] == [1]
    assert record.num_cached_tokens == 2


async def test_with_no_other_replica_a_lost_one_is_a_503(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, unserved_seconds=0.1) as gateway:
        replica.hold()
        call = asyncio.create_task(gateway.http.post(CHAT, json=say(stream=True)))
        await until(lambda: len(replica.submitted) == 1)
        replica.step()
        await until(lambda: [r.state for r in gateway.app.gateway.registry.live()] == ["prefill"])
        replica.die()
        response = await call
        assert response.status_code == 503
        record = await gateway.record_of(response.headers["x-request-id"])
    assert end_of(record) == (Disposition.ERROR, Delivery.NONE, 503)
    assert "replica-a is unavailable: it was killed" in (record.reason or "")
    released = find_event(record.events, EventKind.RELEASED)
    assert released is not None
    assert released.observability is Observability.INFERRED


async def test_a_replica_lost_in_mid_stream_ends_it_with_a_clear_error_and_no_end_mark(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    add_replica("b", capabilities=BLIND)
    async with serving(tmp_path, deployment("a", "b")) as gateway:
        replica.step_seconds = 0.005
        body = say(max_tokens=400, stream=True)
        async with gateway.http.stream("POST", CHAT, json=body) as response:
            await until(lambda: gateway.app.gateway.registry.live()[0].has_written)
            replica.die()
            events = await read_stream(response)
        record = await gateway.record_of(response.headers["x-request-id"])
        other = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert other.status_code == 200
    last = events[-1]
    assert isinstance(last, dict)
    assert last["error"]["message"] == "replica replica-a is unavailable: it was killed"
    assert end_of(record) == (Disposition.ERROR, Delivery.PARTIAL, 200)
    assert record.replica_ids == ("replica-a",)


async def test_a_replica_that_comes_back_is_connected_again(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, unserved_seconds=0.1) as gateway:
        replica.die()
        lost = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert lost.status_code == 503
        replica.is_dead = False
        await until(lambda: gateway.app.report().replicas[0].is_connected)
        found = await gateway.http.post(CHAT, json=say(max_tokens=1))
        assert found.status_code == 200


async def test_what_a_replica_told_grows_old_when_it_tells_nothing_new(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        await until(lambda: gateway.app.report().replicas[0].stats is not None)
        replica.is_mute = True
        await asyncio.sleep(0.05)
        stats = gateway.app.report().replicas[0].stats
        replica.is_mute = False
    assert stats is not None
    assert stats.age_seconds >= 0.04


@pytest.mark.parametrize(
    ("end", "status", "disposition"),
    [
        (
            EngineEvent(
                kind=EventKind.FINISHED,
                disposition=Disposition.ERROR,
                status_code=400,
                reason="the prompt can never fit",
            ),
            400,
            Disposition.ERROR,
        ),
        (
            EngineEvent(kind=EventKind.FINISHED, disposition=Disposition.ERROR, reason="it broke"),
            500,
            Disposition.ERROR,
        ),
        (EngineEvent(kind=EventKind.TOKENS, num_tokens=1, text="x"), 502, Disposition.ERROR),
        (EngineEvent(kind=EventKind.FINISHED), 502, Disposition.ERROR),
    ],
)
async def test_what_an_engine_refuses_or_breaks_has_a_proper_status(
    tmp_path: Path,
    replica: ScriptedReplica,
    end: EngineEvent,
    status: int,
    disposition: Disposition,
) -> None:
    async with serving(tmp_path) as gateway:
        replica.finish_instead = end
        response = await gateway.http.post(CHAT, json=say(stream=True))
        assert response.status_code == status
        record = await gateway.record_of(response.headers["x-request-id"])
        assert end_of(record) == (disposition, Delivery.NONE, status)
        replica.finish_instead = None
        assert (await gateway.http.post(CHAT, json=say(max_tokens=1))).status_code == 200


async def test_a_stop_ends_the_answer(tmp_path: Path, replica: ScriptedReplica) -> None:
    async with serving(tmp_path) as gateway:
        replica.stop_text = "w2"
        body = {"model": MODEL, "prompt": "x", "stop": ["w2"], "temperature": 0, "seed": 7}
        response = await gateway.http.post(COMPLETIONS, json=body)
        assert response.json()["choices"][0]["text"] == "w0 w1 "
        assert response.json()["choices"][0]["finish_reason"] == "stop"
    sampling = replica.submitted[0].sampling
    assert (sampling.stop, sampling.temperature, sampling.seed) == (("w2",), 0, 7)


async def test_an_engine_that_shows_less_is_marked_and_nothing_is_invented(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.shows_steps = False
    replica.capabilities = replace(
        BLIND,
        prefill=Observability.INFERRED,
        decode=Observability.INFERRED,
        cleanup=Observability.UNOBSERVABLE,
        token_counts=Observability.INFERRED,
    )
    async with serving(tmp_path) as gateway:
        response = await gateway.http.post(CHAT, json=say(max_tokens=2, stream=True))
        record = await gateway.record_of(response.headers["x-request-id"])
    scheduled = find_event(record.events, EventKind.SCHEDULED)
    first_token = find_event(record.events, EventKind.FIRST_TOKEN)
    assert scheduled is not None
    assert first_token is not None
    assert scheduled.observability is first_token.observability is Observability.INFERRED
    assert record.prompt_tokens_observability is Observability.INFERRED
    assert record.output_tokens_observability is Observability.INFERRED
    assert record.cleanup_observability is Observability.UNOBSERVABLE
    assert EventKind.RELEASED not in kinds(record)
    assert kinds(record).count(EventKind.SCHEDULED) == 1
    assert replica.submitted[0].body["messages"] == say()["messages"]


async def test_a_client_that_does_not_read_hurts_only_itself(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.capabilities = replace(BLIND, max_model_len=200_000)
    served = replace(deployment("a"), max_model_len=200_000)
    async with serving(tmp_path, served, write_seconds=0.3) as gateway:
        replica.step_seconds = 0
        host, port = gateway.app.address.removeprefix("http://").split(":")
        body = json.dumps(say(max_tokens=60_000, stream=True)).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        # A small window here, and nobody who reads: the gateway's writes must come to a halt.
        _, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(head.encode() + body)
        await until(lambda: len(gateway.app.gateway.registry) == 1)
        await until(
            lambda: any(r.waits_for_client for r in gateway.app.gateway.registry.live()), 10
        )
        other = await gateway.http.post(CHAT, json=say(max_tokens=3))
        assert other.status_code == 200
        await until(lambda: len(gateway.records) == 2, 10)
        record = gateway.records[-1]
        writer.close()
    assert end_of(record) == (Disposition.CANCELLED, Delivery.PARTIAL, 200)
    assert record.reason == "the client read nothing for 0.3 s"
    last_write = find_event(record.events, EventKind.LAST_WRITE)
    assert last_write is not None
    assert last_write.reason == record.reason, "told also where the answer had ended well before"


async def test_a_client_that_reads_slowly_is_waited_for(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    replica.capabilities = replace(BLIND, max_model_len=200_000)
    served = replace(deployment("a"), max_model_len=200_000)
    async with serving(tmp_path, served, write_seconds=0.5) as gateway:
        replica.step_seconds = 0
        host, port = gateway.app.address.removeprefix("http://").split(":")
        body = json.dumps(say(max_tokens=20_000)).encode()
        head = (
            f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"  # whoever read all of it is told so at once
        )
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect((host, int(port)))
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(client, head.encode() + body)
            await until(
                lambda: [r.state for r in gateway.app.gateway.registry.live()] == ["finished"], 10
            )
            began = time.monotonic()
            while not gateway.records:
                await asyncio.sleep(0.02)
                await loop.sock_recv(client, 2048)
            assert time.monotonic() - began > 0.6, "it was no test of patience"
    assert end_of(gateway.records[0]) == (Disposition.LENGTH, Delivery.COMPLETE, 200)


async def test_sixty_four_streams_finish_and_counts_balance_all_the_way(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    add_replica("b", capabilities=BLIND)
    async with serving(tmp_path, deployment("a", "b")) as gateway:
        snapshots = []

        async def watch() -> None:
            while True:
                answer = await gateway.http.get("/internal/requests")
                snapshots.append(answer.json())
                await asyncio.sleep(0.01)

        watcher = asyncio.create_task(watch())
        limits = httpx.Limits(max_connections=64)
        async with httpx.AsyncClient(base_url=gateway.url, limits=limits, timeout=60) as http:
            answers = await asyncio.gather(
                *(http.post(CHAT, json=say(max_tokens=16, stream=True)) for _ in range(64))
            )
        watcher.cancel()
        await until(lambda: len(gateway.records) == 64)
        final = (await gateway.http.get("/internal/requests")).json()
    assert all("w15 " in answer.text for answer in answers)
    assert all(answer.text.endswith("data: [DONE]\n\n") for answer in answers)
    assert {record.num_output_tokens for record in gateway.records} == {16}
    assert {record.delivery for record in gateway.records} == {Delivery.COMPLETE}
    assert {record.replica_ids[0] for record in gateway.records} == {"replica-a", "replica-b"}
    assert sorted(r.gateway_sequence for r in gateway.records) == list(range(64))
    for seen in [*snapshots, final]:
        counts = seen["counts"]
        live = [r for r in seen["requests"] if r["state"] in ("queued", "prefill", "decode")]
        assert counts["active"] == len(live)
        assert counts["arrived"] == (
            counts["invalid"] + counts["undecided"] + counts["rejected"] + counts["admitted"]
        )
        assert counts["admitted"] == counts["active"] + counts["finished"]
    assert any(seen["requests"] for seen in snapshots)
    assert final["counts"]["finished"] == 64
    assert final["requests"] == []


async def test_content_is_recorded_only_for_a_tenant_that_opted_in(
    tmp_path: Path, replica: ScriptedReplica, capsys: pytest.CaptureFixture[str]
) -> None:
    async with serving(tmp_path) as gateway:
        for tenant in ("acme", "open"):
            await gateway.http.post(
                CHAT,
                json=say("a secret", max_tokens=2),
                headers={"x-pilothouse-tenant": tenant},
            )
        await until(lambda: len(gateway.records) == 2)
    assert gateway.records[0].content is None
    assert gateway.records[1].content is not None
    assert gateway.records[1].content.prompt == "user: a secret"
    assert gateway.records[1].content.output == "w0 w1 "
    written = capsys.readouterr()
    assert "secret" not in written.out + written.err


async def test_a_finished_request_is_judged_by_the_contract_of_its_class(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    def promise(seconds: float) -> ContractPolicy:
        terms = ContractTerms(
            boundary=Boundary.SERVER,
            objectives=(
                Objective(signal=ObjectiveSignal.E2E, target=0.99, at_most_seconds=seconds),
            ),
        )
        return ContractPolicy(revision="c@1", terms_by_class={"only": terms})

    served = (
        deployment("a", contract=promise(10)),
        deployment("b", name="hasty", model_name="hasty", contract=promise(0.000001)),
    )
    add_replica("b", capabilities=BLIND)
    async with serving(tmp_path, *served) as gateway:
        for model in (MODEL, "hasty"):
            await gateway.http.post(CHAT, json=say(max_tokens=1) | {"model": model})
        await until(lambda: len(gateway.records) == 2)
    judgements = [record.judgement for record in gateway.records]
    assert [j.results[0].verdict for j in judgements if j] == [Verdict.GOOD, Verdict.BAD]


async def test_draining_answers_503_to_new_requests_and_lets_running_ones_finish(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(max_tokens=2)))
        await until(lambda: len(replica.submitted) == 1)
        draining = asyncio.create_task(gateway.app.gateway.drain(5))
        await until(lambda: gateway.app.gateway.is_draining)
        refused = await gateway.http.post(CHAT, json=say())
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == "draining"
        replica.resume()
        assert (await running).status_code == 200
        await draining


async def test_what_outlasts_the_drain_ends_with_an_error(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        replica.hold()
        running = asyncio.create_task(gateway.http.post(CHAT, json=say(stream=True)))
        await until(lambda: len(replica.submitted) == 1)
        await gateway.app.gateway.drain(0.05)
        response = await running
        assert response.status_code == 503
        assert response.json()["error"]["message"] == "the gateway is shutting down"


async def test_small_answers_on_one_connection_do_not_wait_for_acknowledgements(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path) as gateway:
        seconds = []
        for _ in range(9):
            began = time.monotonic()
            await gateway.http.get("/healthz")
            seconds.append(time.monotonic() - began)
    # Linux delays an acknowledgement by 40 ms; with Nagle's algorithm each answer pays that.
    assert min(seconds[1:]) < 0.03


async def test_metrics_and_health_are_told(tmp_path: Path, replica: ScriptedReplica) -> None:
    async with serving(tmp_path) as gateway:
        await gateway.http.post(CHAT, json=say(max_tokens=1))
        await until(lambda: len(gateway.records) == 1)
        metrics = await gateway.http.get("/metrics")
        assert "pilothouse_gateway_requests_ended_total" in metrics.text
        health = await gateway.http.get("/healthz")
        assert health.json()["snapshot_version"] == 5
        assert (await gateway.http.get("/health")).json() == health.json()
        assert health.headers["x-request-id"]
