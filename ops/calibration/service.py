"""What is measured: a gateway process before one replica process, and every record it wrote.

The gateway has no control plane, so nothing is sampled: each full record stays in its spool.
"""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec

from dataplane.engine import ReplicaSpec, ReplicaStatus
from dataplane.gateway.segment import SEGMENT_GLOB
from dataplane.gateway.status import read_status
from dataplane.host.process import HostProcess
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    ReplicaEndpoint,
    Snapshot,
    encode_snapshot,
)
from dataplane.record import RequestRecord, decode_record
from ops.calibration.process import running, wait_for

ENGINE = "paged"
MODEL = "calibrated"
_REPLICA = "replica-calibrated"
_START_SECONDS = 120.0
_MAX_QUEUE = 100_000
"""Nobody is turned away: what is measured is waiting, not refusal."""


@dataclass(frozen=True, slots=True)
class Service:
    """A gateway that serves one replica of the native engine."""

    url: str
    folder: Path
    status: ReplicaStatus
    metrics_url: str

    def records(self) -> list[RequestRecord]:
        """Of all requests so far, in the order in which they ended."""
        return read_spool(self.folder)

    def engine_metrics(self) -> dict[str, float]:
        """What the replica exports without labels, by name."""
        values = {}
        for line in httpx.get(self.metrics_url, timeout=10).text.splitlines():
            name, _, value = line.partition(" ")
            if not line.startswith("#") and "{" not in name:
                values[name] = float(value)
        return values


@contextlib.contextmanager
def serving(folder: Path, artifact: Path, settings: Mapping[str, Any]) -> Iterator[Service]:
    """Start both, and end both however the block ends. Raises NotStartedError."""
    with contextlib.ExitStack() as started:
        status = started.enter_context(_replica(folder, artifact, settings))
        endpoint = ReplicaEndpoint(
            replica_id=status.replica_id, engine=ENGINE, address=str(status.address)
        )
        url = started.enter_context(serving_gateway(folder, endpoint, artifact))
        yield Service(url, folder, status, f"http://{status.metrics_address}/metrics")


@contextlib.contextmanager
def _replica(folder: Path, artifact: Path, settings: Mapping[str, Any]) -> Iterator[ReplicaStatus]:
    spec = ReplicaSpec(
        replica_id=_REPLICA,
        deployment=MODEL,
        engine=ENGINE,
        model_name=MODEL,
        model_revision=f"{artifact.stem}@1",
        engine_config_revision="calibration@1",
        artifact=str(artifact),
        settings=dict(settings),
    )
    spec_path, status_path = folder / "spec.json", folder / "status.json"
    spec_path.write_bytes(msgspec.json.encode(spec))
    command = HostProcess(ENGINE).command(str(spec_path), str(status_path))

    def find_serving() -> ReplicaStatus | None:
        if not status_path.exists():
            return None
        status = msgspec.json.decode(status_path.read_bytes(), type=ReplicaStatus)
        return status if status.stage == "serving" else None

    with running(command, folder / "replica.log") as process:
        yield wait_for(find_serving, process, folder / "replica.log", _START_SECONDS)


@contextlib.contextmanager
def serving_gateway(folder: Path, endpoint: ReplicaEndpoint, tokenizer: Path) -> Iterator[str]:
    """A gateway before one replica, which it calls MODEL; its address. `tokenizer` is a model's
    file or folder. Raises NotStartedError."""
    state_dir = folder / "gateway"
    state_dir.mkdir()
    (state_dir / "snapshot.json").write_bytes(encode_snapshot(_snapshot(endpoint, tokenizer)))
    command = (
        sys.executable, "-m", "dataplane.gateway", "--name", "gateway-calibration",
        "--port", "0", "--state-dir", str(state_dir),
    )  # fmt: skip

    def find_url() -> str | None:
        try:
            url = read_status(state_dir).address
            models = httpx.get(f"{url}/internal/requests", timeout=5)
        except (FileNotFoundError, httpx.HTTPError):
            return None
        return url if models.is_success else None

    with running(command, folder / "gateway.log") as process:
        yield wait_for(find_url, process, folder / "gateway.log", _START_SECONDS)


def read_spool(folder: Path) -> list[RequestRecord]:
    """Of all requests that the gateway in `folder` has recorded, in the order of their ends."""
    segments = sorted((folder / "gateway").rglob(SEGMENT_GLOB), key=lambda path: int(path.stem))
    lines = [line for path in segments for line in path.read_bytes().splitlines()]
    return [decode_record(line) for line in lines]


def _snapshot(endpoint: ReplicaEndpoint, tokenizer: Path) -> Snapshot:
    policy = AdmissionPolicyTerms(
        revision="calibration@1", classes=(ClassPolicy(name="all", max_queue=_MAX_QUEUE),)
    )
    deployment = DeploymentPolicy(
        name=MODEL,
        model_name=MODEL,
        model_revision=f"{tokenizer.stem}@1",
        engine_config_revision="calibration@1",
        tokenizer_artifact=str(tokenizer),
        max_model_len=None,
        policy=policy,
        contract=None,
        replicas=(endpoint,),
    )
    return Snapshot(version=1, deployments=(deployment,))
