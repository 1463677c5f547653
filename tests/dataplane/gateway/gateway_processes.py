"""Gateway processes for tests, one after the other at the same place."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from dataplane.gateway.status import GatewayStatus, read_status
from dataplane.policy import ReplicaEndpoint
from tests.dataplane.gateway.running_gateway import deployment, keep_snapshot, snapshot, until

ROOT = Path(__file__).parents[3]
START_SECONDS = 120


@dataclass(eq=False)
class Place:
    """Where gateways of one name follow each other."""

    state_dir: Path
    drain_seconds: float = 60
    processes: list[Process] = field(default_factory=list)

    async def start(
        self, *options: str, port: int = 0, environment: Mapping[str, str] | None = None
    ) -> Process:
        """Start one more, without waiting until it serves."""
        with self.log_path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "dataplane.gateway", "--name", "gateway-p"),
                *("--port", str(port), "--state-dir", str(self.state_dir)),
                *("--drain-seconds", str(self.drain_seconds), *options),
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stderr=log,
            )
        self.processes.append(process)
        return process

    async def serve(self, *options: str) -> Process:
        """Start one more and wait until it serves."""
        process = await self.start(*options)
        await until(
            lambda: process.returncode is not None or self.pid == process.pid, START_SECONDS
        )
        assert process.returncode is None, self.log()
        return process

    @property
    def log_path(self) -> Path:
        return self.state_dir.with_suffix(".log")

    def log(self) -> str:
        """What all of them wrote."""
        return self.log_path.read_text()

    @property
    def status(self) -> GatewayStatus:
        return read_status(self.state_dir)

    @property
    def pid(self) -> int | None:
        """Of the newest one that serves."""
        try:
            return self.status.pid
        except FileNotFoundError:
            return None

    async def health(self) -> dict[str, object]:
        async with httpx.AsyncClient(base_url=self.status.address) as http:
            health: dict[str, object] = (await http.get("/healthz")).json()
        return health

    def left_behind(self) -> list[str]:
        """Files that are about one process alone, records that wait aside."""
        files = [path for path in self.state_dir.rglob("*") if path.is_file() or path.is_socket()]
        kept = {"status.json", "snapshot.json"}
        names = (str(path.relative_to(self.state_dir)) for path in files if path.name not in kept)
        return sorted(name for name in names if not name.startswith("spool/"))


@contextlib.asynccontextmanager
async def place_before(
    state_dir: Path, upstream: str, drain_seconds: float = 60, max_active: int | None = None
) -> AsyncIterator[Place]:
    """A place whose gateways send all to `upstream`; what still runs at the end is killed."""
    endpoint = ReplicaEndpoint(replica_id="attached", engine="openai", address=upstream)
    attached = replace(deployment(max_active=max_active), replicas=(endpoint,))
    keep_snapshot(state_dir, snapshot(attached))
    place = Place(state_dir, drain_seconds)
    try:
        yield place
    finally:
        pids = {process.pid for process in place.processes if process.returncode is None}
        if place.pid is not None:  # one that a gateway started itself
            pids.add(place.pid)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in place.processes:
            await process.wait()
