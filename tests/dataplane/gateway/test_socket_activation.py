"""A gateway under a service manager that keeps its socket: what connects meanwhile, waits."""

import asyncio
import shutil
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from tests.dataplane.gateway.gateway_processes import ROOT, START_SECONDS, Place
from tests.dataplane.gateway.running_gateway import (
    CHAT,
    RunningGateway,
    say,
    until,
)
from tests.dataplane.gateway.scripted_engine import ScriptedReplica
from tests.dataplane.gateway.test_handover import stream

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("scripted_engine"),
    pytest.mark.timeout(600),
]


async def start_with(place: Place, listener: socket.socket, notify_socket: Path) -> None:
    """One gateway process that is given `listener` as systemd would give it."""
    script = f'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&{listener.fileno()}'
    arguments = ["--name", "gateway-p", "--state-dir", str(place.state_dir)]
    command = (sys.executable, "-m", "dataplane.gateway", *arguments)
    with place.log_path.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *("/bin/bash", "-c", script, "sh", *command),
            cwd=ROOT,
            pass_fds=[listener.fileno()],
            env={"NOTIFY_SOCKET": str(notify_socket), "WATCHDOG_USEC": "1500000"},
            stderr=log,
        )
    place.processes.append(process)


async def test_a_restart_under_socket_activation_refuses_nobody_and_cuts_nothing(
    place: Place, replica: ScriptedReplica, tmp_path: Path
) -> None:
    loop = asyncio.get_running_loop()
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as manager,
    ):
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        manager.bind(str(tmp_path / "notify"))
        await start_with(place, listener, tmp_path / "notify")
        (first,) = place.processes
        said = await asyncio.wait_for(loop.sock_recv(manager, 200), START_SECONDS)
        assert said.decode().splitlines() == [
            f"MAINPID={first.pid}",
            "READY=1",
            f"STATUS={address}",
        ]
        assert await asyncio.wait_for(loop.sock_recv(manager, 200), 5) == b"WATCHDOG=1"
        replica.hold()
        running = asyncio.create_task(stream(address, 3, asyncio.Semaphore(0)))
        await until(lambda: len(replica.submitted) == 1, 90)
        first.send_signal(signal.SIGTERM)
        await until(lambda: "listening for who looks after it" in place.log(), 60)
        async with httpx.AsyncClient(base_url=address, timeout=180) as http:
            waiting = asyncio.create_task(http.post(CHAT, json=say(max_tokens=2)))
            replica.resume()
            assert await running == "w0 w1 w2 "
            assert await asyncio.wait_for(first.wait(), 120) == 0
            await start_with(place, listener, tmp_path / "notify")
            assert (await waiting).status_code == 200


async def test_it_serves_under_the_tool_that_systemd_has_for_trying_it(
    place: Place, upstream: RunningGateway
) -> None:
    tool = shutil.which("systemd-socket-activate")
    assert tool is not None, "install systemd (ops/setup-test.sh does)"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    arguments = ["--name", "gateway-p", "--state-dir", str(place.state_dir)]
    process = await asyncio.create_subprocess_exec(
        *(tool, "-l", f"127.0.0.1:{port}", sys.executable, "-m", "dataplane.gateway", *arguments),
        cwd=ROOT,
    )
    place.processes.append(process)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=180) as http:
        answer = await until_connected(http)
    assert answer.status_code == 200
    assert place.status.address == f"http://127.0.0.1:{port}"


async def until_connected(http: httpx.AsyncClient) -> httpx.Response:
    """An answer, as soon as somebody listens."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            try:
                return await http.post(CHAT, json=say(max_tokens=2))
            except httpx.ConnectError:
                await asyncio.sleep(0.05)
