"""A real control plane on one core, and real gateways on another, over one state folder."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from sqlalchemy import func, select

from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import Database, create_or_open_database, open_database
from controlplane.store.replicas import ReplicaState
from controlplane.store.tables import DeploymentRow, ReplicaRow
from ops.bench.fleet import idle_launcher
from ops.bench.fleet.takeover import GatewayLog
from ops.bench.hot_path.machine import Cores
from ops.bench.hot_path.server_process import ServerProcess, running
from tests.ports import free_ports

_ROOT = Path(__file__).parents[3]
_LOOK_SECONDS = 0.05
_ENTRY_POINTS = f"""\
[pilothouse.gateway]
{idle_launcher.NAME} = ops.bench.fleet.idle_client
[pilothouse.controlplane]
{idle_launcher.NAME} = ops.bench.fleet.idle_launcher
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """Where everything of it is. Nothing runs by itself."""

    folder: Path
    cores: Cores
    urls: Mapping[DatabaseKind, str]
    port: int = field(default_factory=lambda: free_ports(1)[0])

    @classmethod
    def make(
        cls, folder: Path, cores: Cores, urls: Mapping[DatabaseKind, str] | None = None
    ) -> "Installation":
        """With the idle plugin installed for its processes, and both databases: `urls`, else SQLite
        files in the folder."""
        info = folder / "site" / "idle_fleet-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: idle-fleet\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(_ENTRY_POINTS)
        (folder / "state").mkdir()
        (folder / "weights").touch()
        if urls is None:
            urls = {kind: sqlite_url(folder / "state" / f"{kind}.db") for kind in DatabaseKind}
        for kind, url in urls.items():
            create_or_open_database(url, kind).close()
        return cls(folder=folder, cores=cores, urls=urls)

    @property
    def url(self) -> str:
        """Of the control plane."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def state_dir(self) -> Path:
        """Of the control plane."""
        return self.folder / "state"

    @property
    def weights(self) -> Path:
        """A file that models name."""
        return self.folder / "weights"

    def environment(self) -> dict[str, str]:
        """In which its processes find the plugin."""
        path = os.pathsep.join([str(self.folder / "site"), str(_ROOT), str(_ROOT / "plugins")])
        return {**os.environ, "PYTHONPATH": path}

    def open_config(self) -> Database:
        """For whoever looks from outside."""
        return open_database(self.urls[DatabaseKind.CONFIG], DatabaseKind.CONFIG)

    @contextlib.contextmanager
    def control_plane(self) -> Iterator[ServerProcess]:
        """Until the block ends; it answers when the block begins."""
        command = [
            sys.executable, "-m", "controlplane.cli", "controlplane",
            "--state-dir", str(self.state_dir), "--port", str(self.port),
            "--config-url", self.urls[DatabaseKind.CONFIG],
            "--requests-url", self.urls[DatabaseKind.REQUESTS],
        ]  # fmt: skip
        core, environment = self.cores.server, self.environment()
        with running("control-plane", command, core, self.folder, environment) as process:
            _wait_until_it_answers(self.url, process)
            yield process

    @contextlib.contextmanager
    def gateways(self, number: int) -> Iterator[dict[GatewayLog, ServerProcess]]:
        """So many real gateway processes, until the block ends."""
        with contextlib.ExitStack() as stack:
            found = {}
            for n in range(number):
                name = f"gateway-{n}"
                command = [
                    sys.executable, "-m", "dataplane.gateway", "--name", name, "--port", "0",
                    "--control-plane", self.url, "--state-dir", str(self.folder / name),
                ]  # fmt: skip
                core, environment = self.cores.client, self.environment()
                process = stack.enter_context(
                    running(name, command, core, self.folder, environment)
                )
                found[GatewayLog(process.log_path)] = process
            yield found


def _wait_until_it_answers(url: str, process: ServerProcess) -> None:
    while True:
        process.check_alive()
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"{url}/healthz", trust_env=False, timeout=60)
            return
        time.sleep(_LOOK_SECONDS)


def num_unsettled(database: Database) -> int:
    """Deployments that are not yet as they should be."""
    with database.reading() as session:
        return session.scalars(
            select(func.count())
            .select_from(DeploymentRow)
            .where(DeploymentRow.observed_generation < DeploymentRow.generation)
        ).one()


def num_ready(database: Database) -> int:
    """Replicas that are ready."""
    with database.reading() as session:
        query = select(func.count()).select_from(ReplicaRow)
        return session.scalars(query.where(ReplicaRow.state == ReplicaState.READY.value)).one()


def wait_until_settled(database: Database, process: ServerProcess, seconds: float) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while num_unsettled(database):
        process.check_alive()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{num_unsettled(database)} deployments are not settled")
        time.sleep(_LOOK_SECONDS)
