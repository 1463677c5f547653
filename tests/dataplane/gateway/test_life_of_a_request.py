"""What happens to requests on their way: every end has one disposition and leaves nothing."""

import asyncio
import json
import socket
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.gateway.status import PROBE_HEADER
from dataplane.judgement import Verdict
from dataplane.latency import Boundary
from dataplane.lifecycle import Delivery, Disposition, EventKind, Observability, find_event
from dataplane.policy import ContractPolicy
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
from tests.dataplane.gateway.told_life import end_of, kinds

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]


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


def promise(seconds: float) -> ContractPolicy:
    terms = ContractTerms(
        boundary=Boundary.SERVER,
        objectives=(Objective(signal=ObjectiveSignal.E2E, target=0.99, at_most_seconds=seconds),),
    )
    return ContractPolicy(revision="c@1", terms_by_class={"only": terms})


async def test_a_finished_request_is_judged_by_the_contract_of_its_class(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
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


async def test_a_probe_was_promised_nothing_and_spends_nobodys_budget(
    tmp_path: Path, replica: ScriptedReplica
) -> None:
    async with serving(tmp_path, deployment("a", contract=promise(0.000001))) as gateway:
        probe = {PROBE_HEADER: gateway.app.gateway.probe_key}
        for headers in (probe, {}):
            await gateway.http.post(CHAT, json=say(max_tokens=1), headers=headers)
        await until(lambda: len(gateway.records) == 2)
    revisions = {record.tenant: record.contract_revision for record in gateway.records}
    assert revisions == {"_pilothouse": None, "default": "c@1"}
    assert [record.judgement is None for record in gateway.records] == [True, False]


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
