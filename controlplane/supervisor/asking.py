"""Asking a running `pilothouse serve` for a restart of its gateway, from another process.

The request is a signal to whoever holds the state directory; what came of it is read where the
processes themselves write it, so that no channel of its own has to be kept alive.
"""

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from controlplane.supervisor.child import last_line
from controlplane.supervisor.ending import RESTART_SIGNAL
from controlplane.supervisor.settings import GATEWAY
from dataplane.gateway.status import GatewayStatus, read_status
from dataplane.processes import ProcessDirectory, ProcessRecord, is_alive

SERVE_LOCK = "serve.lock"
_LOOK_SECONDS = 0.1


class RestartError(Exception):
    """The gateway was not restarted; the message says why and what still serves."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """One gateway process and the one that took its place."""

    before: GatewayStatus
    after: GatewayStatus


def restart_gateway(state_dir: Path, timeout_seconds: float) -> Replaced:
    """Ask for it and wait until the new process serves.

    Raises RestartError when nobody keeps this state directory running, when the new process
    ends before it serves, and when it takes too long.
    """
    supervisor = _find_supervisor(state_dir)
    gateway_dir = state_dir / "gateways" / GATEWAY
    try:
        before = read_status(gateway_dir)
    except FileNotFoundError as error:
        raise RestartError(f"{GATEWAY} has not begun to serve yet: wait until it does") from error
    directory = ProcessDirectory(state_dir)
    known = {record.pid for record in directory.records()}
    try:
        os.kill(supervisor, RESTART_SIGNAL)
    except OSError as error:
        raise RestartError(
            f"pilothouse serve (pid {supervisor}) cannot be asked ({error.strerror}): run this "
            f"as the user that it runs as"
        ) from error
    return _wait(
        lambda: read_status(gateway_dir), before, _Newcomers(directory, known), timeout_seconds
    )


def _find_supervisor(state_dir: Path) -> int:
    """The process that holds the lock on `state_dir`."""
    try:
        with (state_dir / SERVE_LOCK).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        pass
    except BlockingIOError:
        return int((state_dir / SERVE_LOCK).read_text())
    raise RestartError(
        f"no pilothouse serve runs on {state_dir}: start it, or name the directory of the one "
        f"that runs with --state-dir. Under systemd it is systemctl reload"
    )


@dataclass(slots=True)
class _Newcomers:
    """Gateway processes that were started after the request."""

    directory: ProcessDirectory
    known_pids: set[int]
    _seen: ProcessRecord | None = None

    def find_dead(self) -> ProcessRecord | None:
        """One that has ended, also when its record is gone by now."""
        for record in self.directory.records():
            if record.role == "gateway" and record.pid not in self.known_pids:
                self._seen = record
        return self._seen if self._seen is not None and not is_alive(self._seen) else None


def _wait(
    read: Callable[[], GatewayStatus],
    before: GatewayStatus,
    newcomers: _Newcomers,
    timeout_seconds: float,
) -> Replaced:
    deadline = time.monotonic() + timeout_seconds
    while time.monotonic() < deadline:
        dead = newcomers.find_dead()  # before the status: who serves and then dies did serve
        after = read()
        if after.gateway_id != before.gateway_id:
            return Replaced(before, after)
        if dead is not None:
            raise RestartError(
                f"the new gateway ended before it served, and pid {before.pid} serves on. Its last "
                f"words: {last_line(dead.log_path, before.gateway_id)} (all of them: "
                f"{dead.log_path})"
            )
        time.sleep(_LOOK_SECONDS)
    raise RestartError(
        f"no new gateway serves after {timeout_seconds:g} s, and pid {before.pid} serves on: see "
        f"what pilothouse serve says, and its log"
    )
