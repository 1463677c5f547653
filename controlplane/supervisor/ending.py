"""The end: who is ended in which order, how long each may take, and the impatient second Ctrl-C.

The gateway goes first, so that its streams finish while replicas run and its records reach
the control plane; then the control plane, so that it starts nothing again; then replicas.
"""

import signal
import time
from collections.abc import Sequence, Set

from controlplane.supervisor.child import Say
from dataplane.processes import (
    ProcessDirectory,
    ProcessRecord,
    find_exit_code,
    is_alive,
    kill_group,
    send_signal,
    wait_for_exit,
)

END_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
"""Blocked in every thread while serve runs, and asked for where it waits."""
RESTART_SIGNAL = signal.SIGUSR1
"""Asks for a new gateway process in the place of the one that serves. Blocked as well."""

_ORDER = ("gateway", "controlplane")
_LOOK_SECONDS = 0.1
_CONTROL_PLANE_SECONDS = 10.0
_FORCED_SECONDS = 10.0
_MARGIN_SECONDS = 5.0


def wait_for_signal(
    seconds: float, awaited: Set[signal.Signals] = END_SIGNALS
) -> signal.Signals | None:
    """One of those that are awaited, or None after `seconds`."""
    found = signal.sigtimedwait(awaited, seconds)
    return None if found is None else signal.Signals(found.si_signo)


class Ending:
    """Ends every process on record. One of END_SIGNALS while it waits makes it force the rest."""

    def __init__(self, directory: ProcessDirectory, drain_seconds: float, say: Say) -> None:
        self._directory = directory
        self._drain_seconds = drain_seconds
        self._say = say
        self._is_forced = False

    def end_all(self) -> list[str]:
        """Returns what could not be ended, which should be nothing."""
        records = [record for record in self._directory.records() if is_alive(record)]
        for role in _ORDER:
            self._end([record for record in records if record.role == role], role)
        # Looked up again: a replica may have been started in the meantime.
        rest = [record for record in self._directory.records() if is_alive(record)]
        self._end(rest, "replica")
        return [f"{record.name}, pid {record.pid}" for record in rest if is_alive(record)]

    def _end(self, records: Sequence[ProcessRecord], role: str) -> None:
        if not records:
            return
        limit = (
            _CONTROL_PLANE_SECONDS
            if role == "controlplane"
            else (self._drain_seconds + _MARGIN_SECONDS)
        )
        names = ", ".join(record.name for record in records)
        self._say(f"{'ending' if role == 'controlplane' else 'draining'} {names}")
        for record in records:
            send_signal(record, signal.SIGTERM)
        self._wait(records, limit)
        for record in records:
            if is_alive(record):
                self._say(f"{record.name} is ended by force")
            kill_group(record)
        for record in records:
            wait_for_exit(record, _FORCED_SECONDS)
            find_exit_code(record)

    def _wait(self, records: Sequence[ProcessRecord], limit: float) -> None:
        deadline = time.monotonic() + limit
        while any(is_alive(record) for record in records) and time.monotonic() < deadline:
            if self._is_forced:
                return
            if wait_for_signal(_LOOK_SECONDS) is not None:
                self._say("asked again: everything is ended by force")
                self._is_forced = True
