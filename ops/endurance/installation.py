"""The real thing: `pilothouse serve` and the processes that it keeps running."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from dataplane import names
from dataplane.processes import ProcessDirectory, ProcessRecord, is_alive, terminate

START_SECONDS = 120.0
STOP_SECONDS = 60.0
DRAIN_SECONDS = 5
_CALL_SECONDS = 10.0


class NotInTimeError(Exception):
    """Something that must come about did not."""


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> None:
    """Raises NotInTimeError when `condition` is not true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise NotInTimeError(f"waited {seconds:g} s for {what}")
        time.sleep(0.1)


@dataclass(slots=True)
class Installation:
    """One state directory, its ports and its supervisor."""

    state_dir: Path
    num_replicas: int
    port: int = field(default_factory=lambda: _free_port())
    gateway_port: int = field(default_factory=lambda: _free_port())
    supervisor: subprocess.Popen[bytes] | None = None
    num_starts: int = 0
    options: tuple[str, ...] = ()
    """More of the command's."""

    @property
    def log_path(self) -> Path:
        """What the supervisors said."""
        return self.state_dir.with_suffix(".serve.log")

    def start(self, config_dir: Path | None = None) -> None:
        """Start a supervisor, which adopts what runs already."""
        command = [
            sys.executable, "-m", "controlplane.cli", "serve", "--state-dir", str(self.state_dir),
            "--port", str(self.port), "--gateway-port", str(self.gateway_port),
            "--drain-seconds", str(DRAIN_SECONDS), *self.options,
        ]  # fmt: skip
        if config_dir is not None:
            command += ["--config", str(config_dir)]
        with self.log_path.open("ab") as log:
            self.supervisor = subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                # Two replicas and two services on few cores: more threads only get in the way.
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        self.num_starts += 1

    def last_words(self) -> str:
        """The end of what the supervisors said."""
        return " | ".join(self.log_path.read_text().splitlines()[-5:])

    def stop(self) -> int:
        """Ctrl-C, and the exit status."""
        assert self.supervisor is not None
        self.supervisor.send_signal(signal.SIGINT)
        return self.supervisor.wait(STOP_SECONDS)

    def end_by_force(self) -> None:
        """Whatever still runs of it."""
        if self.supervisor is not None:
            self.supervisor.kill()
            self.supervisor.wait()
        for record in self.alive():
            terminate(record, grace_seconds=0)

    def alive(self, role: str | None = None) -> list[ProcessRecord]:
        """Processes that run, of `role` or of all."""
        records = ProcessDirectory(self.state_dir).records()
        return [r for r in records if role in (None, r.role) and is_alive(r)]

    def is_whole(self) -> bool:
        """Every process runs, and the gateway has every replica."""
        try:
            replicas = self.ready_replicas()
            report = self.gateway_report()
        except (httpx.HTTPError, LookupError):
            return False
        connected = [each for each in report["replicas"] if each["is_connected"]]
        return len(replicas) == len(connected) == self.num_replicas

    def ready_replicas(self) -> list[dict[str, Any]]:
        """As the control plane tells."""
        replicas = self._get(self.port, "/api/v1/replicas")["replicas"]
        return [each for each in replicas if each["state"] == "ready"]

    def gateway_report(self) -> dict[str, Any]:
        """The report of the one gateway, as the control plane has it. Raises LookupError."""
        gateways = self._get(self.port, "/api/v1/gateways")["gateways"]
        own = [each for each in gateways if each["gateway_id"] == self.live()["gateway_id"]]
        report: dict[str, Any] = own[0]
        return report

    def live(self) -> dict[str, Any]:
        """What the gateway has in flight, with its counts."""
        live: dict[str, Any] = self._get(self.gateway_port, "/internal/requests")
        return live

    def holdings(self) -> dict[str, Any]:
        """What the gateway holds for its requests, and whether its counts fit."""
        holdings: dict[str, Any] = self._get(self.gateway_port, "/internal/holdings")
        return holdings

    def gateway_metrics(self) -> str:
        """As Prometheus reads them."""
        url = f"http://127.0.0.1:{self.gateway_port}/metrics"
        return httpx.get(url, timeout=_CALL_SECONDS).text

    def replica_gauges(self) -> dict[str, dict[str, float]]:
        """What each ready replica says of itself, by its id."""
        found = {}
        for replica in self.ready_replicas():
            text = httpx.get(f"http://{replica['metrics_address']}/metrics", timeout=_CALL_SECONDS)
            values = dict(re.findall(r"^(\w+) (\S+)$", text.text, re.M))
            found[replica["replica_id"]] = {key: float(value) for key, value in values.items()}
        return found

    def holds_nothing(self) -> bool:
        """Nothing is in flight, queued, spooled, or held by a replica."""
        held = (
            names.REPLICA_ACTIVE_SEQUENCES,
            names.REPLICA_WAITING_REQUESTS,
            names.REPLICA_UNRELEASED_REQUESTS,
            names.REPLICA_KV_BLOCKS_REFERENCED,
        )
        try:
            report = self.gateway_report()
            gauges = self.replica_gauges()
            live = self.live()
        except (httpx.HTTPError, LookupError):
            return False
        return (
            live["requests"] == []
            and report["counts"] == live["counts"]  # else it is an older report
            and report["num_queued"] == 0
            and report["num_records_spooled"] == 0
            and all(each["num_outstanding"] == 0 for each in report["replicas"])
            and len(gauges) == self.num_replicas
            and all(gauge[name] == 0 for gauge in gauges.values() for name in held)
        )

    def _get(self, port: int, path: str) -> Any:
        response = httpx.get(f"http://127.0.0.1:{port}{path}", timeout=_CALL_SECONDS)
        response.raise_for_status()
        return response.json()


def open_files(pid: int) -> dict[str, int]:
    """How many of each kind a process has open: sockets, files, deleted files, the rest."""
    counts = dict.fromkeys(("socket", "file", "deleted", "other"), 0)
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:
            continue  # closed meanwhile
        if target.startswith("socket:"):
            counts["socket"] += 1
        elif target.endswith(" (deleted)"):
            counts["deleted"] += 1
        else:
            counts["file" if target.startswith("/") else "other"] += 1
    return counts


def processes_about(path: Path) -> list[int]:
    """The ids of processes of this machine whose command names `path`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(path).encode() + b"/" in command or str(path).encode() + b"\0" in command:
                found.append(int(entry.name))
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
