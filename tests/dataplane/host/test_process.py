"""A replica as a process of its own: started from a spec, proven, drained, broken, killed."""

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from dataplane import names
from dataplane.engine import EngineEvent, EngineRequest, EngineUnavailableError
from dataplane.host.client import HostClient
from dataplane.host.process import HostProcess
from dataplane.lifecycle import Disposition, EventKind
from tests.dataplane.host.replica_process import ReplicaProcess, start_replica
from tests.dataplane.host.served_engine import SPEC, collect, endpoint_at, find, make_spec, run

MakeRequest = Callable[..., EngineRequest]
Start = Callable[..., contextlib.AbstractAsyncContextManager[ReplicaProcess]]


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installs the echo engine: what pip writes, and nothing else."""
    site = tmp_path_factory.mktemp("site")
    info = site / "pilothouse_echo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pilothouse-echo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pilothouse.replica]\necho = tests.dataplane.host.echo_engine\n"
    )
    return site


@pytest.fixture
def start(plugin_path: Path, model_path: Path, tmp_path: Path) -> Start:
    """Starts a replica of the echo engine with some settings."""

    def start_echo(
        artifact: Path = model_path, drain_seconds: float = 5.0, **settings: Any
    ) -> contextlib.AbstractAsyncContextManager[ReplicaProcess]:
        return start_replica(
            make_spec(artifact, **settings), tmp_path, drain_seconds, python_path=plugin_path
        )

    return start_echo


def test_a_replica_serves_is_proven_and_drains(start: Start, make_request: MakeRequest) -> None:
    async def scenario() -> None:
        async with start(step_seconds=0.01, load_seconds=0.05) as process:
            status = await process.wait_for_stage("serving")
            assert status.pid == process.popen.pid
            assert list(status.stages) == ["acquire", "load", "compile", "warm_up"]
            assert status.stages["compile"] == 0.025
            assert status.stages["load"] >= 0.025
            assert status.unobservable_stages == ()
            assert status.address is not None
            assert status.metrics_address is not None

            assert 0.0 < await HostProcess("echo").probe(SPEC, status.address, 5.0) < 5.0
            page = await asyncio.to_thread(_get, f"http://{status.metrics_address}/metrics")
            assert f"{names.REPLICA_STEPS_TOTAL} 1.0" in page
            assert 'replica_id="replica-1"' in page

            client = HostClient(endpoint_at(status.address))
            await client.connect()
            running = asyncio.create_task(collect(client, make_request(max_output_tokens=50)))
            await asyncio.sleep(0.1)
            process.popen.send_signal(signal.SIGINT)  # not ours to act on
            process.popen.terminate()
            await process.wait_for_stage("draining")
            late = await collect(client, make_request("late"))
            assert late[0].status_code == 503
            events = await running
            assert find(events, EventKind.FINISHED).disposition is Disposition.LENGTH
            assert await process.wait_for_end() == 0
            await client.close()

    run(scenario(), seconds=30)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as response:
        body: bytes = response.read()
    return body.decode()


def test_a_drain_is_bounded(start: Start, make_request: MakeRequest) -> None:
    async def scenario() -> None:
        async with start(step_seconds=0.01, drain_seconds=0.2) as process:
            status = await process.wait_for_stage("serving")
            client = HostClient(endpoint_at(str(status.address)))
            await client.connect()
            endless = asyncio.create_task(collect(client, make_request(max_output_tokens=100_000)))
            await asyncio.sleep(0.1)
            process.popen.terminate()
            end = find(await endless, EventKind.FINISHED)
            assert (end.disposition, end.status_code) == (Disposition.ERROR, 503)
            assert await process.wait_for_end() == 0
            await client.close()

    run(scenario(), seconds=30)


def test_sigterm_during_a_long_load_ends_at_once(start: Start) -> None:
    async def scenario() -> None:
        async with start(load_seconds=60) as process:
            await process.wait_for_stage("load")
            await asyncio.sleep(0.3)
            process.popen.terminate()
            assert await process.wait_for_end(seconds=5) == 0

    run(scenario(), seconds=30)


def test_a_step_that_breaks_ends_the_process_loudly(
    start: Start, make_request: MakeRequest
) -> None:
    async def scenario() -> None:
        async with start(fails_at_step=2) as process:
            status = await process.wait_for_stage("serving")
            client = HostClient(endpoint_at(str(status.address)))
            await client.connect()
            events: list[EngineEvent] = []
            with pytest.raises(EngineUnavailableError):
                await _append(events, client.submit(make_request(max_output_tokens=9)))
            assert find(events, EventKind.FINISHED).status_code == 500
            assert await process.wait_for_end() == 1
            failed = process.status()
            assert failed is not None
            assert failed.stage == "failed"
            assert "the echo broke" in str(failed.error)
            lines = [json.loads(line) for line in process.log_path.read_text().splitlines()]
            broken = next(line for line in lines if "exception" in line)
            assert broken["level"] == "error"
            assert broken["replica_id"] == SPEC.replica_id
            assert "RuntimeError: the echo broke" in broken["exception"]
            await client.close()

    run(scenario(), seconds=30)


async def _append(events: list[EngineEvent], stream: AsyncIterator[EngineEvent]) -> None:
    async for event in stream:
        events.append(event)  # noqa: PERF401  (what came before an exception counts)


@pytest.mark.parametrize(
    ("artifact", "settings", "says"),
    [
        ("no-such.gguf", {}, "correct the artifact of the Model document"),
        (None, {"no_such_setting": 1}, "no_such_setting"),
    ],
)
def test_a_start_that_cannot_work_says_why_and_what_to_do(
    start: Start, tmp_path: Path, artifact: str | None, settings: dict[str, Any], says: str
) -> None:
    async def scenario() -> None:
        given = {} if artifact is None else {"artifact": tmp_path / artifact}
        async with start(**given, **settings) as process:
            assert await process.wait_for_end(seconds=15) == 1
            status = process.status()
            assert status is not None
            assert status.stage == "failed"
            assert says in str(status.error)

    run(scenario(), seconds=30)


def test_a_spec_that_is_none_is_refused_with_its_place(tmp_path: Path) -> None:
    spec_path = tmp_path / "spec.json"
    spec_path.write_text('{"replica_id": 7}')
    command = HostProcess("echo").command(str(spec_path), str(tmp_path / "status.json"))
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert ended.returncode == 2
    assert "Expected `str`, got `int` - at `$.replica_id`" in ended.stderr
    assert command[0] == sys.executable


def test_a_probe_of_a_dead_address_is_unavailable_within_its_time() -> None:
    async def scenario() -> None:
        started = time.monotonic()
        with pytest.raises(EngineUnavailableError, match="replica-1 is unavailable"):
            await HostProcess("echo").probe(SPEC, "127.0.0.1:1", 1.0)
        assert time.monotonic() - started < 2.0

    run(scenario())
