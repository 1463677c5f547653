"""A real gateway in front of the stub, started by its own command, as the supervisor starts it.

Its control plane is the record taker: the snapshot comes from there, records and reports go
there, and on the way records lie on disk as they do in production.
"""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from dataplane import names
from dataplane.gateway.status import read_status
from dataplane.policy import (
    AdmissionPolicyTerms,
    ClassPolicy,
    DeploymentPolicy,
    ReplicaEndpoint,
    Snapshot,
    TenantPolicy,
    encode_snapshot,
)
from ops.bench.hot_path.machine import Cores
from ops.bench.hot_path.server_process import NotStartedError, ServerProcess, announced, running
from ops.bench.hot_path.stub_engine import REPLICA_ID
from ops.endurance.tiny_model import write_tiny_model
from ops.scraped_counts import counts_by_label

MODEL = "stub"
_START_SECONDS = 120.0
_CALL_SECONDS = 10.0
PLAIN_POLICY = AdmissionPolicyTerms(
    revision="bench@1", classes=(ClassPolicy(name="interactive", max_queue=100_000),)
)
"""Everybody is let in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayUnderTest:
    """A gateway that serves."""

    process: ServerProcess
    taker: ServerProcess
    address: str
    """host:port."""
    taker_address: str
    state_dir: Path

    def counts(self) -> dict[str, Any]:
        """What its control plane was told: records, their bytes, and the last report."""
        return _get(self.taker_address, "/counts")

    def ends(self) -> dict[str, str]:
        """How each request ended on record, by its id, where that is kept."""
        return _get(self.taker_address, "/ends")

    def slow_clients(self) -> Counter[str]:
        """Requests whose client read too slowly, by what became of them."""
        answer = httpx.get(f"http://{self.address}/metrics", timeout=_CALL_SECONDS, trust_env=False)
        answer.raise_for_status()
        metric, label = names.GATEWAY_SLOW_CLIENTS_TOTAL, names.LABEL_KIND
        return counts_by_label(answer.text, metric, label)

    def live(self) -> dict[str, Any]:
        """What it has in flight, and its counts."""
        return _get(self.address, "/internal/requests")


@contextlib.contextmanager
def gateway_running(
    replica_address: str,
    cores: Cores,
    folder: Path,
    policy: AdmissionPolicyTerms = PLAIN_POLICY,
    tenants: tuple[TenantPolicy, ...] = (TenantPolicy(name="default"),),
    keeps_ends: bool = False,
    engine: str = "paged",
) -> Iterator[GatewayUnderTest]:
    """Start the gateway and its control plane, and wait until it has its replica, which an engine
    other than `paged` attaches by HTTP.

    Raises NotStartedError.
    """
    snapshot_path = folder / "snapshot.json"
    model_path = write_tiny_model(folder / "tiny.gguf", seed=1)
    endpoint = ReplicaEndpoint(replica_id=REPLICA_ID, engine=engine, address=replica_address)
    snapshot_path.write_bytes(encode_snapshot(_snapshot(endpoint, model_path, policy, tenants)))
    options = ["--snapshot", str(snapshot_path), *(["--keep-ends"] if keeps_ends else [])]
    state_dir = folder / "gateway"
    with announced("record-taker", "record_taker", options, cores.client, folder) as (taker, at):
        command = [
            sys.executable, "-m", "dataplane.gateway", "--name", "bench", "--port", "0",
            "--state-dir", str(state_dir), "--control-plane", f"http://{at['http']}",
            "--drain-seconds", "1",
        ]  # fmt: skip
        with running("gateway", command, cores.server, folder) as process:
            address = _wait_until_it_serves(process, state_dir)
            yield GatewayUnderTest(
                process=process,
                taker=taker,
                address=address,
                taker_address=at["http"],
                state_dir=state_dir,
            )


def _snapshot(
    endpoint: ReplicaEndpoint,
    model_path: Path,
    policy: AdmissionPolicyTerms,
    tenants: tuple[TenantPolicy, ...],
) -> Snapshot:
    deployment = DeploymentPolicy(
        name=MODEL,
        model_name=MODEL,
        model_revision=f"{MODEL}@1",
        engine_config_revision="stub@1",
        tokenizer_artifact=str(model_path) if endpoint.engine == "paged" else None,
        max_model_len=None,
        policy=policy,
        contract=None,
        replicas=(endpoint,),
    )
    return Snapshot(version=1, deployments=(deployment,), tenants=tenants)


def _wait_until_it_serves(process: ServerProcess, state_dir: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        process.check_alive()
        address = _find_address(state_dir)
        if address is not None and _serves(address):
            return address
        time.sleep(0.1)
    raise NotStartedError(f"the gateway has no replica after {_START_SECONDS:g} s")


def _find_address(state_dir: Path) -> str | None:
    try:
        return read_status(state_dir).address.removeprefix("http://")
    except FileNotFoundError:
        return None


def _serves(address: str) -> bool:
    """It answers a request of one token."""
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Are you there?"}],
        "max_tokens": 1,
        "stream": True,
    }
    url = f"http://{address}/v1/chat/completions"
    answer = httpx.post(url, json=body, timeout=_CALL_SECONDS, trust_env=False)
    return answer.status_code == httpx.codes.OK


def _get(address: str, path: str) -> dict[str, Any]:
    answer = httpx.get(f"http://{address}{path}", timeout=_CALL_SECONDS, trust_env=False)
    answer.raise_for_status()
    told: dict[str, Any] = answer.json()
    return told
