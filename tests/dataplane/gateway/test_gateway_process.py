"""`python -m dataplane.gateway` as a process: it tells when it listens, drains, and is remembered.

Its engine is another gateway in this test, attached through the openai plugin.
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from dataplane.gateway.app import create_app
from dataplane.gateway.settings import GatewaySettings
from dataplane.gateway.spool import RecordSpool
from dataplane.gateway.status import GatewayStatus, read_status
from dataplane.lifecycle import Delivery, Disposition, Observability
from dataplane.policy import ReplicaEndpoint
from dataplane.record import RequestRecord, decode_record
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    deployment,
    keep_snapshot,
    say,
    snapshot,
    until,
)
from tests.dataplane.gateway.scripted_engine import ScriptedReplica

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("scripted_engine")]

ROOT = Path(__file__).parents[3]


@contextlib.asynccontextmanager
async def gateway_process(state_dir: Path, upstream: str) -> AsyncIterator[tuple[Process, str]]:
    """A gateway process in front of `upstream`, and its address once it listens."""
    endpoint = ReplicaEndpoint(replica_id="attached", engine="openai", address=upstream)
    keep_snapshot(state_dir, snapshot(replace(deployment(), replicas=(endpoint,))))
    arguments = ["--name", "gateway-p", "--port", "0", "--state-dir", str(state_dir)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "dataplane.gateway", *arguments), cwd=ROOT
    )
    try:
        await until(lambda: process.returncode is not None or pid_of(state_dir) == process.pid, 20)
        assert process.returncode is None
        yield process, read_status(state_dir).address
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def pid_of(state_dir: Path) -> int | None:
    status = find_status(state_dir)
    return None if status is None else status.pid


def find_status(state_dir: Path) -> GatewayStatus | None:
    try:
        return read_status(state_dir)
    except FileNotFoundError:
        return None


def spooled(state_dir: Path) -> list[RequestRecord]:
    """What stays on disk for a control plane that is away."""
    sent: list[bytes] = []

    async def keep(batch: bytes) -> None:
        sent.append(batch)

    async def drain() -> None:
        spool = RecordSpool(state_dir / "spool", "reader", keep)
        await spool.flush(5)
        spool.close()

    asyncio.run(drain())
    return [decode_record(item) for batch in sent for item in _records(batch)]


def _records(batch: bytes) -> list[bytes]:
    return [msgspec.json.encode(record) for record in msgspec.json.decode(batch)["records"]]


async def test_sigterm_lets_a_stream_finish_and_keeps_its_record(
    tmp_path: Path, upstream: RunningGateway, replica: ScriptedReplica
) -> None:
    state_dir = tmp_path / "gateway"
    async with gateway_process(state_dir, upstream.url) as (process, address):
        replica.hold()
        async with httpx.AsyncClient(base_url=address, timeout=10) as http:
            running = asyncio.create_task(http.post(CHAT, json=say(max_tokens=3, stream=True)))
            await until(lambda: len(replica.submitted) == 1)
            process.send_signal(signal.SIGTERM)
            await until_draining(address)
            refused = await http.post(CHAT, json=say())
            assert refused.status_code == 503
            replica.resume()
            answer = await running
            assert "w2 " in answer.text
            assert answer.text.endswith("data: [DONE]\n\n")
        assert await asyncio.wait_for(process.wait(), 10) == 0
    records = await asyncio.to_thread(spooled, state_dir)
    by_disposition = {record.disposition: record for record in records}
    assert set(by_disposition) == {Disposition.LENGTH, Disposition.REJECTED}
    served = by_disposition[Disposition.LENGTH]
    assert served.delivery is Delivery.COMPLETE
    assert served.engine == "openai"
    assert served.num_output_tokens == 3
    assert served.cleanup_observability is Observability.UNOBSERVABLE


async def until_draining(address: str) -> None:
    async with httpx.AsyncClient(base_url=address) as http:
        for _ in range(500):
            if (await http.get("/healthz")).json()["is_draining"]:
                return
            await asyncio.sleep(0.01)
    raise AssertionError("the gateway does not drain")


async def test_what_a_killed_gateway_had_in_flight_is_recorded_as_lost_by_its_successor(
    tmp_path: Path, upstream: RunningGateway, replica: ScriptedReplica
) -> None:
    state_dir = tmp_path / "gateway"
    async with gateway_process(state_dir, upstream.url) as (process, address):
        replica.hold()
        async with httpx.AsyncClient(base_url=address, timeout=10) as http:
            running = asyncio.create_task(http.post(CHAT, json=say(max_tokens=3)))
            await until(lambda: len(replica.submitted) == 1)
            os.kill(process.pid, signal.SIGKILL)
            with pytest.raises(httpx.RemoteProtocolError):
                await running
    async with gateway_process(state_dir, upstream.url) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    (record,) = await asyncio.to_thread(spooled, state_dir)
    assert record.disposition is Disposition.LOST
    assert record.delivery is Delivery.NONE
    assert record.replica_ids == ("attached",)
    assert record.policy_revision == "policy@3"
    # The upstream saw its client vanish, and let go of everything.
    await upstream.settle()


async def test_a_taken_port_is_told_with_the_remedy(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        arguments = ["--name", "gateway-p", "--port", port, "--state-dir", str(tmp_path)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dataplane.gateway", *arguments),
            cwd=ROOT,
            stderr=asyncio.subprocess.PIPE,
        )
        _, told = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert b"choose another --host or --port" in told
    assert b"Traceback" not in told


async def test_what_has_not_started_has_nothing_to_drain(tmp_path: Path) -> None:
    app = create_app(GatewaySettings(name="gateway-s", state_dir=tmp_path), "gateway-s-1")
    await asyncio.wait_for(app.drain(), 1)
