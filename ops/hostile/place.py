"""A real gateway before replicas of the simulator, each a process: no control plane meddles.

What is done to them is done from outside, as it happens: a process is stopped, a connection goes
through somebody who changes what is said, a clock is set.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from dataplane.engine import ReplicaSpec, ReplicaStatus
from dataplane.gateway.status import GatewayStatus, read_status
from dataplane.policy import (
    AdmissionPolicyTerms,
    DeploymentPolicy,
    ReplicaEndpoint,
    Snapshot,
    TenantPolicy,
    encode_snapshot,
)
from ops.bench.hot_path.machine import resident_bytes

ENGINE = "simulator"
DEPLOYMENT = "chat"
MODEL = "bytes"
_START_SECONDS = 60.0
_STOP_SECONDS = 20.0


class NotStartedError(Exception):
    """A process did not come up; its log says why."""


@dataclass(slots=True)
class Replica:
    """One process of the simulator."""

    replica_id: str
    process: subprocess.Popen[bytes]
    status_path: Path
    address: str = ""
    """host:port of its door, once it serves."""

    def stall(self) -> None:
        """It hangs from now on: connections are taken, and nothing is said."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """It runs again."""
        self.process.send_signal(signal.SIGCONT)


@dataclass(slots=True)
class Place:
    """One folder, its replicas and its gateway."""

    folder: Path
    artifact: str
    """Of the Model that its replicas serve."""
    replicas: list[Replica] = field(default_factory=list)
    gateway: subprocess.Popen[bytes] | None = None

    def start_replicas(self, number: int, settings: Mapping[str, Any]) -> list[Replica]:
        """Start so many more, and wait until they serve. Raises NotStartedError."""
        started = [self._start_replica(settings) for _ in range(number)]
        for replica in started:
            _wait(lambda each=replica: _find_address(each), f"{replica.replica_id} to serve")  # type: ignore[misc]
            replica.address = _find_address(replica) or ""
        return started

    def _start_replica(self, settings: Mapping[str, Any]) -> Replica:
        replica_id = f"replica-{len(self.replicas)}"
        spec = ReplicaSpec(
            replica_id=replica_id,
            deployment=DEPLOYMENT,
            engine=ENGINE,
            model_name=MODEL,
            model_revision=f"{MODEL}@1",
            engine_config_revision="simulator@1",
            artifact=self.artifact,
            settings=settings,
        )
        spec_path = self.folder / f"{replica_id}.spec.json"
        status_path = self.folder / f"{replica_id}.status.json"
        spec_path.write_bytes(msgspec.json.encode(spec))
        paths = ("--spec", str(spec_path), "--status", str(status_path))
        replica = Replica(
            replica_id, self._start(replica_id, "dataplane.host", *paths), status_path
        )
        self.replicas.append(replica)
        return replica

    def start_gateway(
        self,
        terms: AdmissionPolicyTerms,
        addresses: Mapping[str, str],
        tenants: tuple[TenantPolicy, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Before replicas at `addresses`, by their ids. Raises NotStartedError."""
        served = DeploymentPolicy(
            name=DEPLOYMENT,
            model_name=MODEL,
            model_revision=f"{MODEL}@1",
            engine_config_revision="simulator@1",
            tokenizer_artifact=self.artifact,
            max_model_len=4096,
            policy=terms,
            contract=None,
            replicas=tuple(
                ReplicaEndpoint(replica_id=replica_id, engine=ENGINE, address=address)
                for replica_id, address in addresses.items()
            ),
        )
        self.state_dir.mkdir()
        snapshot = Snapshot(version=1, deployments=(served,), tenants=tenants)
        (self.state_dir / "snapshot.json").write_bytes(encode_snapshot(snapshot))
        command = ("dataplane.gateway", "--name", "gateway-h", "--port", "0")
        options = ("--state-dir", str(self.state_dir), "--drain-seconds", "5")
        self.gateway = self._start("gateway", *command, *options, environment=environment)
        _wait(self._has_status, "the gateway to serve")

    @property
    def state_dir(self) -> Path:
        """Of the gateway."""
        return self.folder / "gateway"

    @property
    def status(self) -> GatewayStatus:
        """Of the gateway that serves."""
        return read_status(self.state_dir)

    def gateway_bytes(self) -> int:
        """Resident memory of the gateway."""
        return resident_bytes(self.status.pid)

    def end(self) -> None:
        """Everything that was started."""
        gateway = [self.gateway] if self.gateway is not None else []
        processes = [*gateway, *(replica.process for replica in self.replicas)]
        for process in processes:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in processes:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _has_status(self) -> bool:
        try:
            return bool(self.gateway and self.status.pid)
        except FileNotFoundError:
            assert self.gateway is not None
            if self.gateway.poll() is not None:
                raise NotStartedError(self._log("gateway")) from None
            return False

    def _start(
        self, name: str, module: str, *options: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", module, *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )

    def _log(self, name: str) -> str:
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return " | ".join(lines[-5:])


@contextlib.contextmanager
def open_place(folder: Path, artifact: str | None = None) -> Iterator[Place]:
    """In `folder`, which is empty; nothing of it runs any more at the end. `artifact`: of the
    Model; None: one whose tokens are bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    place = Place(folder, artifact or vocabulary())
    try:
        yield place
    finally:
        place.end()


def vocabulary() -> str:
    """A vocabulary in which every byte is a token."""
    spec = find_spec("pilothouse_simulator")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bytes.gguf")


def _find_address(replica: Replica) -> str | None:
    if replica.process.poll() is not None:
        raise NotStartedError(f"{replica.replica_id} ended with {replica.process.returncode}")
    try:
        status = msgspec.json.decode(replica.status_path.read_bytes(), type=ReplicaStatus)
    except FileNotFoundError:
        return None
    if status.error is not None:
        raise NotStartedError(status.error)
    return status.address


def _wait(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise NotStartedError(f"waited {_START_SECONDS:g} s for {what}")
        time.sleep(0.05)
