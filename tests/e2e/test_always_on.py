"""A replica that is driven into thrash: an incident opens by itself, and ends by itself."""

import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from tests.controlplane.control_plane_server import serve_control_plane
from tests.e2e.served import wait_for
from tests.ports import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

QUICK = AlwaysOnSettings(
    pass_seconds=0.5, look_seconds=1.0, judged_seconds=12.0, keep_seconds=60.0, calm_seconds=3.0
)
DOCUMENTS = """
apiVersion: pilothouse/v1
kind: Model
metadata: {name: bytes}
spec: {artifact: {package: pilothouse_simulator, file: bytes.gguf}}
---
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {name: tight}
spec:
  engine: simulator
  settings:
    max_num_seqs: 16
    block_size: 16
    num_blocks: 64
    output_tokens: {constant: 400}
    start_seconds: {load: 0.1, warm_up: 0.1}
---
apiVersion: pilothouse/v1
kind: AdmissionPolicy
metadata: {name: open}
spec:
  classes: [{name: all, priority: 1, max_queue: 256, deadline: 5m}]
  limits: {max_active_per_replica: 16}
---
apiVersion: pilothouse/v1
kind: Tenant
metadata: {name: default}
spec: {tier: standard, records_content: false}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {name: tight}
spec: {model: bytes, engine: tight, policy: open, replicas: 1}
"""
"""64 blocks hold 1024 tokens: 16 answers of 400 tokens do not fit, and throw each other out."""


@contextmanager
def control_plane(state_dir: Path) -> Iterator[str]:
    """Its URL. What it started outlives it, and is ended here."""
    pids: list[int] = []
    try:
        with serve_control_plane(state_dir, QUICK) as (url, opened):
            try:
                yield url
            finally:
                pids += [each.pid for each in opened.observed.replicas() if each.pid is not None]
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)


@contextmanager
def gateway(url: str, state_dir: Path) -> Iterator[str]:
    """A real gateway below the control plane at `url`."""
    (port,) = free_ports(1)
    process = subprocess.Popen(
        [sys.executable, "-m", "dataplane.gateway", "--name", "gateway-0", "--port", str(port),
         "--control-plane", url, "--state-dir", str(state_dir), "--drain-seconds", "1"],
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def load(gateway_url: str) -> Iterator[None]:
    """Sixteen callers who ask again at once."""
    stopping = threading.Event()

    def ask() -> None:
        with httpx.Client(timeout=60) as http:
            for number in itertools.count():
                if stopping.is_set():
                    return
                body = {
                    "model": "bytes",
                    "prompt": f"{number}: once upon a time",
                    "max_tokens": 400,
                }
                http.post(f"{gateway_url}/v1/completions", json=body)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


def test_thrash_opens_an_incident_by_itself_and_ends_by_itself(tmp_path: Path) -> None:
    with control_plane(tmp_path / "state") as url:

        def get(path: str) -> Any:
            return httpx.get(f"{url}{path}", timeout=10).json()

        files = [{"name": "tight.yaml", "text": DOCUMENTS}]
        applied = httpx.post(
            f"{url}/api/v1/apply",
            json={"files": files, "author": "ann", "reason": "fewer blocks"},
            timeout=30,
        )
        assert applied.status_code == 200, applied.text
        with gateway(url, tmp_path / "gateway") as gateway_url:
            wait_for(lambda: is_served(gateway_url), 60, "the gateway to answer")
            with load(gateway_url):
                found = wait_for(
                    lambda: get("/api/v1/incidents?state=open")["incidents"], 60, "an incident"
                )
                assert [each["mechanism"] for each in found] == ["cache.thrash"]
                diagnosis = get("/api/v1/deployments/tight/diagnosis")
                assert (diagnosis["num_replicas"], diagnosis["num_telling"]) == (1, 1)
            path = f"/api/v1/incidents/{found[0]['incident_id']}"
            whole = wait_for(
                lambda: (w := get(path))["incident"]["state"] == "resolved" and w, 60, "its end"
            )
            evidence = whole["findings"][0]["finding"]["evidence"]
            assert any("pilothouse_replica_preemptions_total" in each for each in evidence)
            assert any("fewer blocks" in change["text"] for change in whole["changes"])


def is_served(gateway_url: str) -> bool:
    try:
        body = {"model": "bytes", "prompt": "a", "max_tokens": 1}
        answer = httpx.post(f"{gateway_url}/v1/completions", json=body, timeout=10)
    except httpx.TransportError:
        return False
    return answer.status_code == httpx.codes.OK
