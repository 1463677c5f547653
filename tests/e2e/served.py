"""A served installation, started the way a user starts it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_ports

START_SECONDS = 90
STOP_SECONDS = 60


@dataclass(slots=True)
class Served:
    """A running `pilothouse serve`."""

    state_dir: Path
    port: int
    gateway_port: int
    log_path: Path
    supervisor: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """The control plane."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def gateway_url(self) -> str:
        """The gateway, without /v1."""
        return f"http://127.0.0.1:{self.gateway_port}"

    def get(self, path: str) -> Any:
        """JSON of one of the control plane's paths."""
        response = httpx.get(self.url + path, timeout=10)
        response.raise_for_status()
        return response.json()

    def live(self) -> dict[str, Any]:
        """What the gateway has in flight, with its counts."""
        live: dict[str, Any] = httpx.get(f"{self.gateway_url}/internal/requests", timeout=10).json()
        return live

    def metrics_of_replica(self) -> str:
        """The /metrics text of the one replica of our own engine that is ready."""
        replicas = self.get("/api/v1/replicas")["replicas"]
        ready = [r for r in replicas if r["state"] == "ready" and r["metrics_address"]]
        assert len(ready) == 1, ready
        return httpx.get(f"http://{ready[0]['metrics_address']}/metrics", timeout=10).text

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        """Block until the supervisor has printed its curl line."""
        wait_for(
            lambda: "curl" in self.log_path.read_text() or self.supervisor.poll() is not None,
            seconds,
            "serve to say that it answers",
        )
        assert self.supervisor.poll() is None, self.log_path.read_text()

    def stop(self) -> int:
        """Ctrl-C, and the exit status."""
        self.supervisor.send_signal(signal.SIGINT)
        return self.supervisor.wait(STOP_SECONDS)


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true value of `condition`; fails after `seconds` and says what was awaited."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds} s for {what}")
        time.sleep(0.05)
    return value


def start_serve(
    state_dir: Path,
    ports: list[int] | None = None,
    env: dict[str, str] | None = None,
    options: Sequence[str] = (),
) -> Served:
    """Start `pilothouse serve` without waiting for it."""
    port, gateway_port = ports or free_ports(2)
    log_path = state_dir.with_suffix(f".{time.monotonic_ns()}.log")
    with log_path.open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "controlplane.cli", "serve", "--state-dir", str(state_dir),
             "--port", str(port), "--gateway-port", str(gateway_port), *options],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )  # fmt: skip
    return Served(state_dir, port, gateway_port, log_path, supervisor)
