"""The launcher of local processes.

All it knows lies on disk, so a later control plane sees the same replicas: the spec and
the replica's own status in `<state>/replicas/<id>/`, the process in `<state>/processes/`.
The spec is written first: a replica without a process was never started.
"""

import contextlib
import hashlib
import shutil
import signal
import threading
from pathlib import Path

import msgspec

from controlplane.hooks import ReplicaObservation, StrayProcess
from dataplane.atomic_file import replace_file
from dataplane.engine import EngineProcess, ReplicaSpec, ReplicaStatus
from dataplane.process_mark import state_identity
from dataplane.processes import (
    ProcessDirectory,
    ProcessRecord,
    describe_exit,
    find_exit_code,
    is_alive,
    kill_group,
    send_signal,
)
from dataplane.unreadable import is_unreadable, unreadable_spec
from pilothouse_local.strays import Owner, Serving, StrayHunt

ROLE = "replica"
_SPEC_FILE = "spec.json"
_STATUS_FILE = "status.json"


class LocalLauncher:
    """Places replicas on this machine. Each replica has one caller at a time; `observe` may run
    beside them."""

    def __init__(self, state_dir: Path) -> None:
        self._replicas_dir = state_dir.absolute() / "replicas"
        self._processes = ProcessDirectory(state_dir)
        self._exit_codes: dict[str, int] = {}  # of our own children, whose end is told only once
        self._reaping = threading.Lock()
        self._hunt: StrayHunt | None = None  # made when there is a directory to look at

    def launch(self, spec: ReplicaSpec, process: EngineProcess) -> None:
        """Start a replica that outlives the caller; nothing happens when it runs already."""
        record = self._processes.find(spec.replica_id)
        if record is not None and is_alive(record):
            return
        spec_path = self._path(spec.replica_id, _SPEC_FILE)
        status_path = self._path(spec.replica_id, _STATUS_FILE)
        encoded = msgspec.json.encode(spec)
        status_path.unlink(missing_ok=True)
        replace_file(spec_path, encoded)
        argv = process.command(str(spec_path), str(status_path))
        digest = hashlib.sha256(encoded).hexdigest()
        self._processes.start(spec.replica_id, ROLE, argv, digest, fencing_token=spec.fencing_token)

    def observe(self) -> list[ReplicaObservation]:
        """Every replica that was ever launched here and not forgotten, alive or dead."""
        found = []
        for path in sorted(self._replicas_dir.glob(f"*/{_SPEC_FILE}")):
            with contextlib.suppress(FileNotFoundError):  # it was forgotten meanwhile
                found.append(self._observe(path.parent.name, path.read_bytes()))
        return found

    def stop(self, replica_id: str, is_forced: bool = False) -> None:
        """Ask a replica to drain and end, or end it and its children at once."""
        record = self._processes.find(replica_id)
        if record is None:
            return
        if is_forced:
            kill_group(record)
        else:
            send_signal(record, signal.SIGTERM)

    def forget(self, replica_id: str) -> None:
        """Drop what is kept of a dead replica; its log stays.

        Raises RuntimeError when it is alive.
        """
        record = self._processes.find(replica_id)
        if record is not None and not is_alive(record):
            # What it may have left in its group goes with it.
            kill_group(record)
            self._remember_exit(record)
        self._processes.forget(replica_id)
        self._exit_codes.pop(replica_id, None)
        shutil.rmtree(self._replicas_dir / replica_id, ignore_errors=True)

    def find_strays(self) -> list[StrayProcess]:
        """What replicas that ended left running, and who listens on the ports of those that run."""
        if self._hunt is None:
            try:
                self._hunt = StrayHunt(state_identity(self._processes.state_dir), ROLE)
            except FileNotFoundError:
                return []  # nothing was ever started here
        alive = [each for each in self._processes.records() if is_alive(each)]
        return self._hunt.find([self._serving(each) for each in alive if each.role == ROLE])

    def end_stray(self, stray_id: str) -> None:
        """End what a replica left, as told at the last look, and nothing else."""
        if self._hunt is not None:
            self._hunt.end(stray_id)

    def _serving(self, record: ProcessRecord) -> Serving:
        status, _ = self._read_status(record)
        port = None if status is None or status.address is None else _port(status.address)
        return Serving(owner=Owner(record.name, record.fencing_token), pid=record.pid, port=port)

    def _observe(self, replica_id: str, encoded_spec: bytes) -> ReplicaObservation:
        spec = _read_spec(replica_id, encoded_spec)
        record = self._processes.find(replica_id)
        if record is None:
            return ReplicaObservation(
                spec=spec,
                pid=None,
                is_alive=False,
                status=None,
                exit_reason="its process was never started",
            )
        # The order matters: a status read before the end may be older than the end.
        alive = is_alive(record)
        status, problem = self._read_status(record)
        return ReplicaObservation(
            spec=spec,
            pid=record.pid,
            is_alive=alive,
            status=status,
            exit_reason=problem if alive else self._explain_exit(record, status, problem),
            fencing_token=_token(spec, status),
        )

    def _read_status(self, record: ProcessRecord) -> tuple[ReplicaStatus | None, str | None]:
        path = self._path(record.name, _STATUS_FILE)
        try:
            status = msgspec.json.decode(path.read_bytes(), type=ReplicaStatus)
        except FileNotFoundError:
            return None, None
        except (msgspec.ValidationError, msgspec.DecodeError) as error:
            return None, f"its status file {path} cannot be read: {error}"
        if (status.replica_id, status.pid) != (record.name, record.pid):
            return None, f"its status file {path} is about {status.replica_id}, pid {status.pid}"
        return status, None

    def _explain_exit(
        self, record: ProcessRecord, status: ReplicaStatus | None, problem: str | None
    ) -> str:
        if status is not None and status.error is not None:
            return status.error
        self._remember_exit(record)
        how = describe_exit(self._exit_codes.get(record.name))
        where = f"its output is in {record.log_path}"
        return "; ".join(part for part in (how, problem, where) if part)

    def _remember_exit(self, record: ProcessRecord) -> None:
        with self._reaping:
            exit_code = find_exit_code(record)
            if exit_code is not None:
                self._exit_codes[record.name] = exit_code

    def _path(self, replica_id: str, file_name: str) -> Path:
        return self._replicas_dir / replica_id / file_name


def _port(address: str) -> int | None:
    """Of host:port or http://host:port."""
    port = address.rstrip("/").rpartition(":")[2]
    return int(port) if port.isdigit() else None


def _token(spec: ReplicaSpec, status: ReplicaStatus | None) -> int | None:
    """What the process says itself, else what it was started with."""
    if status is not None and status.fencing_token is not None:
        return status.fencing_token
    return None if is_unreadable(spec) else spec.fencing_token


def _read_spec(replica_id: str, encoded: bytes) -> ReplicaSpec:
    """The spec; one that cannot be read is told as that of an engine called `unreadable`, which
    nobody asks for: the replica is then known by its id, and the others are not hidden with it."""
    try:
        return msgspec.json.decode(encoded, type=ReplicaSpec)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return unreadable_spec(replica_id, deployment="unreadable")
