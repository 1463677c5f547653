"""The process group of a server, and what is heard on its port."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import pytest

from dataplane.owned_server.child import ServerChild
from dataplane.owned_server.listener import is_heard_by_group
from dataplane.owned_server.plan import ServerPlan

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/net/tcp").exists(), reason="this system does not tell who listens"
)


def a_child(*argv: str) -> ServerChild:
    return ServerChild(ServerPlan(argv=argv, port=1, environment={}), grace_seconds=5)


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@needs_proc
@pytest.mark.parametrize("program", ["/nonexistent/server", "a\0b"])
def test_no_guard_is_left_of_a_server_that_could_not_be_started(program: str) -> None:
    async def start() -> None:
        async with a_child(program):
            pass

    before = children()
    with pytest.raises((OSError, ValueError)):
        asyncio.run(start())
    assert children() <= before


@needs_proc
def test_a_listener_of_somebody_else_is_not_the_servers() -> None:
    async def scenario(port: int) -> bool | None:
        async with a_child(sys.executable, "-c", "import time; time.sleep(100)") as child:
            return child.is_heard_on(port)

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert asyncio.run(scenario(port)) is False
        assert is_heard_by_group(port, os.getpgid(0)) is True
    assert is_heard_by_group(port, os.getpgid(0)) is False
