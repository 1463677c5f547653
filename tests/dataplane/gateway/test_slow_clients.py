"""A client that reads more slowly than its engine selects: its engine is paused, or it is ended."""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dataplane import names
from dataplane.backlog import TOO_SLOW, TOO_SLOW_CODE
from dataplane.lifecycle import Delivery, Disposition, Event, EventKind, Observability
from dataplane.policy import DeploymentPolicy, TenantLimits
from dataplane.record import RequestRecord
from dataplane.slow_client_terms import SlowClientAction, SlowClientTerms
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    deployment,
    say,
    serving,
    until,
)
from tests.dataplane.gateway.scripted_engine import BLIND, ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

NUM_TOKENS = 6000
PAUSING = SlowClientTerms(max_waiting_bytes=8 * 2**10)
PAUSED = "the client to read, with its engine paused"
HELD_UP = "the client to read; its engine does not say that it is paused"
SLOW_CLIENTS = names.GATEWAY_SLOW_CLIENTS_TOTAL


def served(terms: SlowClientTerms) -> DeploymentPolicy:
    return replace(deployment("a", terms={"slow_clients": terms}), max_model_len=200_000)


@pytest.fixture
def fast(replica: ScriptedReplica) -> ScriptedReplica:
    replica.capabilities = replace(BLIND, max_model_len=200_000)
    replica.step_seconds = 0
    return replica


@contextlib.asynccontextmanager
async def asking(gateway: RunningGateway, **fields: Any) -> AsyncIterator[socket.socket]:
    """A client with a small window that has asked for a long stream and reads nothing yet."""
    host, port = gateway.app.address.removeprefix("http://").split(":")
    body = json.dumps(say(max_tokens=NUM_TOKENS, stream=True, **fields)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n"
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        client.setblocking(False)
        sent = f"{head}connection: close\r\n\r\n".encode() + body
        await asyncio.get_running_loop().sock_sendall(client, sent)
        yield client


def pauses_of(record: RequestRecord) -> list[Event]:
    return [e for e in record.events if e.kind in (EventKind.PAUSED, EventKind.RESUMED)]


async def read_all(client: socket.socket) -> str:
    parts = []
    while part := await asyncio.get_running_loop().sock_recv(client, 2**16):
        parts.append(part)
    return b"".join(parts).decode()


async def test_its_engine_is_paused_says_so_and_goes_on_once_it_has_read(
    tmp_path: Path, fast: ScriptedReplica
) -> None:
    fast.can_pause = True
    async with serving(tmp_path, served(PAUSING)) as gateway:
        async with asking(gateway) as client:
            live = gateway.app.gateway.registry.live
            await until(lambda: any(r.waits_for() == PAUSED for r in live()))
            other = await gateway.http.post(CHAT, json=say(max_tokens=3))
            assert other.status_code == 200
            # By now what was on its way when the engine paused has come.
            [told] = (await gateway.http.get("/internal/requests")).json()["requests"]
            assert live()[0].num_output_tokens == told["num_output_tokens"] < NUM_TOKENS
            answer = await read_all(client)
        await until(lambda: len(gateway.records) == 2)
        metrics = (await gateway.http.get("/metrics")).text
    assert 8 * 2**10 < told["num_unread_bytes"] < 9 * 2**10
    assert f"w{NUM_TOKENS - 1} " in answer
    record = gateway.records[-1]
    assert (record.disposition, record.delivery) == (Disposition.LENGTH, Delivery.COMPLETE)
    assert record.num_output_tokens == NUM_TOKENS
    pauses = pauses_of(record)
    assert [e.kind for e in pauses[:2]] == [EventKind.PAUSED, EventKind.RESUMED]
    assert "bytes wait for the client" in (pauses[0].reason or "")
    assert all(e.replica_id == "replica-a" for e in pauses)
    assert {e.observability for e in pauses} == {Observability.OBSERVED}
    assert f'{SLOW_CLIENTS}{{deployment="chat",kind="paused"' in metrics
    assert f'{SLOW_CLIENTS}{{deployment="chat",kind="held_up"' not in metrics


async def test_an_engine_that_cannot_pause_is_held_up_and_nobody_says_that_it_paused(
    tmp_path: Path, fast: ScriptedReplica
) -> None:
    async with serving(tmp_path, served(PAUSING)) as gateway:
        async with asking(gateway) as client:
            live = gateway.app.gateway.registry.live
            await until(lambda: any(r.waits_for() == HELD_UP for r in live()))
            [told] = (await gateway.http.get("/internal/requests")).json()["requests"]
            answer = await read_all(client)
        await until(lambda: len(gateway.records) == 1)
        metrics = (await gateway.http.get("/metrics")).text
    assert 16 * 2**10 < told["num_unread_bytes"] < 17 * 2**10
    assert f"w{NUM_TOKENS - 1} " in answer
    [record] = gateway.records
    assert record.num_output_tokens == NUM_TOKENS
    assert {e.observability for e in pauses_of(record)} == {Observability.INFERRED}
    assert f'{SLOW_CLIENTS}{{deployment="chat",kind="held_up"' in metrics
    assert f'{SLOW_CLIENTS}{{deployment="chat",kind="paused"' not in metrics


@pytest.mark.parametrize("can_pause", [True, False])
async def test_of_an_engine_that_has_finished_nothing_is_kept_for_a_client_that_only_reads(
    can_pause: bool, tmp_path: Path, fast: ScriptedReplica
) -> None:
    fast.can_pause = can_pause
    fast.ignores_pause = True  # its steps were under way
    # More than its socket takes, and less than twice the buffer beyond that.
    terms = SlowClientTerms(max_waiting_bytes=24 * 2**10)
    one_at_once = {"default": TenantLimits(max_concurrent=1)}
    policy = deployment("a", terms={"slow_clients": terms, "tenants": one_at_once})
    async with serving(tmp_path, replace(policy, max_model_len=200_000)) as gateway:
        queue = gateway.app.gateway.fleet.queue_of("chat")
        async with asking(gateway) as client:
            live = gateway.app.gateway.registry.live
            await until(lambda: any(r.lifecycle.is_terminal for r in live()))
            await until(lambda: queue.num_held == 0)
            [request] = live()
            assert request.backlog is not None
            assert request.backlog.num_bytes > 24 * 2**10
            other = await gateway.http.post(CHAT, json=say(max_tokens=3))
            assert other.status_code == 200
            answer = await read_all(client)
        await until(lambda: len(gateway.records) == 2)
    assert f"w{NUM_TOKENS - 1} " in answer
    assert gateway.records[-1].delivery is Delivery.COMPLETE


@pytest.mark.parametrize(
    "terms",
    [
        SlowClientTerms(max_waiting_bytes=8 * 2**10, then=SlowClientAction.END),
        SlowClientTerms(max_waiting_bytes=8 * 2**10, pause_seconds=0.2),
    ],
    ids=["at once", "after a pause"],
)
async def test_it_is_ended_gets_what_was_produced_and_is_told_why(
    tmp_path: Path, fast: ScriptedReplica, terms: SlowClientTerms
) -> None:
    async with serving(tmp_path, served(terms)) as gateway:
        async with asking(gateway) as client:
            await until(lambda: bool(fast.cancelled))
            await until(lambda: not fast.held)
            answer = await read_all(client)
        await until(lambda: len(gateway.records) == 1)
        [report] = gateway.app.report().replicas
        metrics = (await gateway.http.get("/metrics")).text
    [record] = gateway.records
    assert (record.disposition, record.delivery) == (Disposition.CANCELLED, Delivery.PARTIAL)
    assert (record.reason or "").startswith(TOO_SLOW)
    assert record.num_output_tokens is not None
    assert f"w{record.num_output_tokens - 1} " in answer
    error = json.loads(answer.rpartition("data: ")[2].splitlines()[0])["error"]
    assert (error["code"], error["message"]) == (TOO_SLOW_CODE, record.reason)
    assert "[DONE]" not in answer
    assert report.held_back is None  # its replica is not to blame
    assert f'{SLOW_CLIENTS}{{deployment="chat",kind="ended"' in metrics


async def test_what_was_dropped_makes_no_whole_answer_of_it_whatever_its_engine_says(
    tmp_path: Path, fast: ScriptedReplica
) -> None:
    fast.ignores_cancel = True  # it had come to its end before it heard
    terms = SlowClientTerms(max_waiting_bytes=8 * 2**10, then=SlowClientAction.END)
    async with serving(tmp_path, served(terms)) as gateway:
        async with asking(gateway) as client:
            await until(lambda: bool(fast.cancelled))
            await until(lambda: not fast.held)
            answer = await read_all(client)
        await until(lambda: len(gateway.records) == 1)
    [record] = gateway.records
    assert (record.disposition, record.delivery) == (Disposition.CANCELLED, Delivery.PARTIAL)
    words = [int(word) for word in re.findall(r"w(\d+) ", answer)]
    assert words == list(range(len(words)))
    assert len(words) < NUM_TOKENS == record.num_output_tokens
    error = json.loads(answer.rpartition("data: ")[2].splitlines()[0])["error"]
    assert (error["code"], error["message"]) == (TOO_SLOW_CODE, record.reason)
    assert "[DONE]" not in answer
    assert '"finish_reason":"length"' not in answer


@pytest.mark.parametrize("can_pause", [True, False])
async def test_one_that_leaves_while_it_is_paused_is_cancelled(
    can_pause: bool, tmp_path: Path, fast: ScriptedReplica
) -> None:
    fast.can_pause, waits_for = can_pause, PAUSED if can_pause else HELD_UP
    async with serving(tmp_path, served(PAUSING)) as gateway:
        async with asking(gateway):
            live = gateway.app.gateway.registry.live
            await until(lambda: any(r.waits_for() == waits_for for r in live()))
        await until(lambda: len(gateway.records) == 1)
    assert gateway.records[0].reason == "the client left"
    assert not fast.held


async def test_an_answer_in_one_piece_is_never_too_much_for_its_client(
    tmp_path: Path, fast: ScriptedReplica
) -> None:
    terms = SlowClientTerms(max_waiting_bytes=64, then=SlowClientAction.END)
    async with serving(tmp_path, served(terms)) as gateway:
        answer = await gateway.http.post(CHAT, json=say(max_tokens=500))
    assert answer.json()["choices"][0]["message"]["content"].endswith("w499 ")
