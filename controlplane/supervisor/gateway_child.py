"""The gateway as a child that can be followed by a new one without a gap.

A restart starts a second process beside the first, under the next free name of the place
(gateway-0, gateway-0.1, ...). It takes the port over by itself and says so in the status file;
only then is it the gateway. The old one is left to finish its streams, and watched until it has
ended. A new one that dies before changes nothing.

    serving ---restart---> serving + coming --status file names it--> leaving + serving
                                    |
                                    +--it dies, or takes too long--> serving
"""

import signal
from dataclasses import dataclass
from pathlib import Path

from controlplane.supervisor.child import Child, Say, last_line
from controlplane.supervisor.http import answers
from controlplane.supervisor.settings import ChildSpec
from dataplane.clock import MonotonicClock
from dataplane.gateway.status import GatewayStatus, read_status
from dataplane.processes import (
    ProcessDirectory,
    ProcessRecord,
    describe_exit,
    find_exit_code,
    is_alive,
    kill_group,
    send_signal,
    terminate,
    wait_for_exit,
)

_COMING_SECONDS = 120.0
_ENDING_SECONDS = 60.0
"""For releasing and flushing, on top of the drain."""
_SILENT_GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Bounded:
    record: ProcessRecord
    until: float
    """By the monotonic clock; then it is ended by force."""
    is_noted: bool = False
    """How it ended is in the history already."""


class GatewayChild(Child):
    """The supervisor's main thread owns it."""

    def __init__(
        self,
        directory: ProcessDirectory,
        spec: ChildSpec,
        say: Say,
        clock: MonotonicClock,
        gateway_state_dir: Path,
        leave_seconds: float,
    ) -> None:
        super().__init__(directory, spec, say, clock)
        self._state_dir = gateway_state_dir
        self._leave_seconds = leave_seconds + _ENDING_SECONDS
        self._coming: _Bounded | None = None
        self._leaving: list[_Bounded] = []

    def owns(self, record: ProcessRecord) -> bool:
        """It is, or was, a process of this place."""
        place, _, number = record.name.partition(".")
        return (
            record.role == self.spec.role
            and place == self.spec.name
            and (not number or number.isdecimal())
        )

    def adopt(self) -> bool:
        """Take over what an earlier supervisor started, if it answers, and follow it by one with
        the settings of today where they differ; let every other one of the place leave."""
        living = [r for r in self._directory.records() if self.owns(r) and is_alive(r)]
        status = self._status()
        current = next((r for r in living if status is not None and r.pid == status.pid), None)
        for record in living:
            if record != current:
                self._let_leave(record, "another one has its place")
        if current is None or status is None:
            return False
        port = int(status.address.rpartition(":")[2])
        if port != self.spec.port:
            self._let_leave(current, f"it listens on port {port}")
            return False
        if not answers(self.spec.host, port, "/healthz"):
            self._say(f"ending {current.name}, pid {current.pid}: it does not answer on {port}")
            terminate(current, _SILENT_GRACE_SECONDS)
            return False
        self._record = current
        self._started_at = self._clock()
        if current.digest == self.spec.digest:
            self._say(f"adopted {current.name}, pid {current.pid}")
        else:
            self.restart("it was started with other settings")
        return True

    def restart(self, why: str) -> None:
        """Begin to replace the process that serves; `check` sees it through."""
        if self._record is None or not is_alive(self._record):
            self._say(f"{self.spec.name} is not running; it is started as soon as it may be")
            return
        if self._coming is not None:
            self._say(f"{self.spec.name}: pid {self._coming.record.pid} is taking over already")
            return
        record = self._start_one()
        self._say(
            f"restarting {self.spec.name}: pid {record.pid} is to take over from pid "
            f"{self._record.pid} ({why})"
        )
        self._coming = _Bounded(record, self._clock() + _COMING_SECONDS)

    def check(self) -> None:
        """As `Child.check`, and take a handover further. Raises GivenUpError."""
        self._check_coming()
        self._leaving = [each for each in self._leaving if not self._has_left(each)]
        # One that died since is followed by the one that comes, at the next check, and not by a
        # third: two that serve would each hold the port.
        if self._coming is None:
            super().check()

    def _start_one(self) -> ProcessRecord:
        self._forget_dead()
        return self._directory.start(
            self._free_name(),
            self.spec.role,
            self.spec.argv,
            self.spec.digest,
            self.spec.name,
            self.spec.whole_environment,
        )

    def _free_name(self) -> str:
        names = [self.spec.name, *(f"{self.spec.name}.{number}" for number in range(1, 1000))]
        return next(name for name in names if not self._is_taken(name))

    def _forget_dead(self) -> None:
        for record in self._directory.records():
            if self.owns(record) and record.name != self.spec.name and not is_alive(record):
                self._directory.forget(record.name)

    def _is_taken(self, name: str) -> bool:
        record = self._directory.find(name)
        return record is not None and is_alive(record)

    def _check_coming(self) -> None:
        if self._coming is None:
            return
        coming = self._coming.record
        status = self._status()
        if not is_alive(coming):
            how = describe_exit(find_exit_code(coming))
            predecessor = None if status is None else status.gateway_id
            self._give_up(f"{how}; {last_line(coming.log_path, predecessor)}")
        elif status is not None and status.pid == coming.pid:
            self._promote(coming)
        elif self._record is not None and not is_alive(self._record):
            # The one that comes has the socket already, and need not wait for anybody.
            how = describe_exit(find_exit_code(self._record))
            self._note("failed", f"{how}, while pid {coming.pid} was taking over")
            self._promote(coming, is_noted=True)
        elif self._clock() > self._coming.until:
            terminate(coming, 0)
            self._give_up(f"it did not serve within {_COMING_SECONDS:.0f} s")

    def _give_up(self, why: str) -> None:
        assert self._coming is not None, "only what is coming is given up"
        name, self._coming = self._coming.record.name, None
        self._directory.forget(name)
        served_by = "" if self._record is None else f"; pid {self._record.pid} serves on"
        self._say(f"{self.spec.name} was not replaced: {why}{served_by}")
        self._note("failed", f"it was not replaced: {why}{served_by}")

    def _promote(self, coming: ProcessRecord, is_noted: bool = False) -> None:
        """`is_noted`: what became of the one before is in the history."""
        old, self._record, self._coming = self._record, coming, None
        self._started_at = self._clock()
        if old is not None:
            self._say(f"{self.spec.name}: pid {coming.pid} took over from pid {old.pid}")
            self._leaving.append(_Bounded(old, self._clock() + self._leave_seconds, is_noted))

    def _let_leave(self, record: ProcessRecord, why: str) -> None:
        self._say(f"draining {record.name}, pid {record.pid}: {why}")
        send_signal(record, signal.SIGTERM)
        self._leaving.append(_Bounded(record, self._clock() + self._leave_seconds))

    def _has_left(self, leaving: _Bounded) -> bool:
        record = leaving.record
        is_late = is_alive(record)
        if is_late:
            if self._clock() <= leaving.until:
                return False
            self._say(f"{record.name}, pid {record.pid}, does not end by itself: it is forced to")
            kill_group(record)
            wait_for_exit(record, None)
        exit_code = find_exit_code(record)
        how = describe_exit(exit_code)
        self._say(f"{record.name}, pid {record.pid}, has left: {how}")
        # An end that nobody of ours saw says nothing of what it had left to do.
        if not leaving.is_noted and (is_late or exit_code not in (0, None)):
            late = ", as it did not end by itself" if is_late else ""
            self._note("failed", f"pid {record.pid}, which was draining: {how}{late}")
        if self._directory.find(record.name) == record:  # else the name is another one's by now
            self._directory.forget(record.name)
        return True

    def _status(self) -> GatewayStatus | None:
        try:
            return read_status(self._state_dir)
        except FileNotFoundError:
            return None
