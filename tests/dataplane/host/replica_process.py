"""A replica in a process of its own, ended whatever happens."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataplane.engine import ReplicaSpec, ReplicaStatus
from dataplane.host.process import HostProcess

_ROOT = Path(__file__).parents[3]


@dataclass(slots=True)
class ReplicaProcess:
    """One running replica."""

    popen: subprocess.Popen[bytes]
    status_path: Path
    log_path: Path

    def status(self) -> ReplicaStatus | None:
        """What it last said of itself."""
        if not self.status_path.exists():
            return None
        return msgspec.json.decode(self.status_path.read_bytes(), type=ReplicaStatus)

    async def wait_for_stage(self, stage: str, seconds: float = 15.0) -> ReplicaStatus:
        """The status once it names `stage`; fails with the log when the process ends first."""
        async with asyncio.timeout(seconds):
            while True:
                status = self.status()
                if status is not None and status.stage == stage:
                    return status
                assert self.popen.poll() is None, self.log_path.read_text()
                await asyncio.sleep(0.02)

    async def wait_for_end(self, seconds: float = 10.0) -> int:
        """The exit code."""
        return await asyncio.to_thread(self.popen.wait, seconds)


@contextlib.asynccontextmanager
async def start_replica(
    spec: ReplicaSpec, directory: Path, drain_seconds: float = 5.0, python_path: Path = _ROOT
) -> AsyncIterator[ReplicaProcess]:
    """Run `spec` with its files in `directory`; `python_path` holds further plugins."""
    spec_path, status_path = directory / "spec.json", directory / "status.json"
    spec_path.write_bytes(msgspec.json.encode(spec))
    search = os.pathsep.join([str(python_path), str(_ROOT), str(_ROOT / "plugins")])
    log_path = directory / "log"
    popen = _launch(
        HostProcess(spec.engine).command(str(spec_path), str(status_path)),
        {"PYTHONPATH": search, "PILOTHOUSE_DRAIN_SECONDS": str(drain_seconds)},
        log_path,
    )
    try:
        yield ReplicaProcess(popen, status_path, log_path)
    finally:
        if popen.poll() is None:
            popen.kill()
        popen.wait()


def _launch(
    command: tuple[str, ...], environment: dict[str, str], log_path: Path
) -> subprocess.Popen[bytes]:
    with log_path.open("wb") as log:
        return subprocess.Popen(command, env=os.environ | environment, stderr=log)
