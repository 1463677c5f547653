"""A launcher that starts nothing, and an engine that is always ready, as an installed plugin.

It keeps the contract of launchers: what it was told to launch it shows as running until it is told
to stop, also to a control plane that comes later, and what has ended until it is forgotten. All
that it was told stands in a file, a line each. Replicas fail at the rate that another file says.
"""

import json
import random
import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import msgspec

from controlplane.hooks import Launcher, ReplicaObservation, hookimpl
from dataplane.clock import monotonic_clock
from dataplane.engine import EngineProcess, ReplicaSpec, ReplicaStatus

NAME = "idle"
"""Of the launcher and of the engine."""
ADDRESS = "127.0.0.1:1"
_TOLD_FILE = "idle-replicas.jsonl"
_FAILING_FILE = "idle-failing.json"
KILLED = "killed by the bench"


def set_failing(state_dir: Path, per_second: float) -> None:
    """From now on so many replicas fail each second."""
    (state_dir / _FAILING_FILE).write_text(json.dumps(per_second))


class IdleLauncher:
    """Threads share it."""

    def __init__(self, state_dir: Path) -> None:
        self._told = state_dir / _TOLD_FILE
        self._failing = state_dir / _FAILING_FILE
        self._lock = threading.Lock()
        self._shown: dict[str, ReplicaObservation] = {}
        self._random = random.Random(1)
        self._failed_until = monotonic_clock()
        if self._told.exists():
            for line in self._told.read_text().splitlines():
                self._follow(json.loads(line))
        self._file = self._told.open("a", encoding="utf-8", buffering=1)

    def launch(self, spec: ReplicaSpec, process: EngineProcess) -> None:
        """It runs from now on."""
        self._tell({"launch": asdict(spec)})

    def observe(self) -> list[ReplicaObservation]:
        """All that was launched and is not forgotten."""
        with self._lock:
            for replica_id in self._to_fail():
                self._end(replica_id, KILLED)
            return list(self._shown.values())

    def stop(self, replica_id: str, is_forced: bool = False) -> None:
        """It has nothing to finish, so it ends at once."""
        self._tell({"stop": replica_id})

    def forget(self, replica_id: str) -> None:
        """Nothing is left of it."""
        self._tell({"forget": replica_id})

    def _tell(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._follow(line)

    def _follow(self, line: Mapping[str, Any]) -> None:
        if "launch" in line:
            spec = msgspec.convert(line["launch"], type=ReplicaSpec)
            self._shown[spec.replica_id] = _running(spec)
        elif "stop" in line:
            self._end(line["stop"], None)
        else:
            self._shown.pop(line["forget"], None)

    def _end(self, replica_id: str, why: str | None) -> None:
        shown = self._shown.get(replica_id)
        if shown is not None and shown.status is not None:
            stage = shown.status.stage if why else "draining"
            status = replace(shown.status, stage=stage)
            self._shown[replica_id] = replace(
                shown, is_alive=False, status=status, exit_reason=why or "exit status 0"
            )

    def _to_fail(self) -> list[str]:
        """Those whose turn it is since the last look."""
        rate = float(self._failing.read_text()) if self._failing.exists() else 0.0
        now = monotonic_clock()
        number = int((now - self._failed_until) * rate) if rate else 0
        if number or not rate:
            self._failed_until = now
        alive = [key for key, each in self._shown.items() if each.is_alive] if number else []
        return self._random.sample(alive, min(number, len(alive)))


class IdleEngine:
    """Its processes need nothing to serve."""

    attaches = False

    def command(self, spec_path: str, status_path: str) -> tuple[str, ...]:
        """Only the idle launcher places it, and that starts nothing."""
        raise OSError(f"engine {NAME} runs under launcher {NAME} alone")

    async def probe(self, spec: ReplicaSpec, address: str, timeout_seconds: float) -> float:
        """A token at once."""
        return 0.0


def _running(spec: ReplicaSpec) -> ReplicaObservation:
    status = ReplicaStatus(
        replica_id=spec.replica_id,
        pid=1,
        stage="serving",
        address=ADDRESS,
        metrics_address=None,
        stages={"load": 0.0},
        fencing_token=spec.fencing_token,
    )
    return ReplicaObservation(
        spec=spec, pid=None, is_alive=True, status=status, fencing_token=spec.fencing_token
    )


@hookimpl
def pilothouse_create_launcher(name: str, state_dir: Path) -> Launcher | None:
    return IdleLauncher(state_dir) if name == NAME else None


@hookimpl
def pilothouse_create_engine_process(engine: str) -> EngineProcess | None:
    return IdleEngine() if engine == NAME else None


@hookimpl
def pilothouse_check_engine_settings(
    engine: str, settings: Mapping[str, Any]
) -> list[tuple[str, str]] | None:
    return [] if engine == NAME else None
