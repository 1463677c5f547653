"""A process that the supervisor keeps running: adopted or started, watched, started again."""

import collections
from collections.abc import Callable
from pathlib import Path

from controlplane.operator.backoff import delay_seconds
from controlplane.process_history import ProcessEvent, ProcessHistory
from controlplane.supervisor.http import answers
from controlplane.supervisor.settings import ChildSpec
from dataplane.clock import MonotonicClock, wall_clock
from dataplane.processes import (
    ProcessDirectory,
    ProcessRecord,
    describe_exit,
    find_exit_code,
    is_alive,
    terminate,
)

Say = Callable[[str], None]
"""Tells the person at the terminal one line."""

REFUSED_EXIT_CODE = 3
"""A child that will not start until somebody mends something."""

_STEADY_SECONDS = 60.0
_MAX_FAILURES_AT_START = 4
_LEFTOVER_GRACE_SECONDS = 10.0


class GivenUpError(Exception):
    """A child cannot be kept running; the message says why and where its log is."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child:
    """One of them. The supervisor's main thread owns it."""

    def __init__(
        self, directory: ProcessDirectory, spec: ChildSpec, say: Say, clock: MonotonicClock
    ) -> None:
        self._directory = directory
        self._history = ProcessHistory(directory.state_dir)
        self.spec = spec
        self._say = say
        self._clock = clock
        self._record: ProcessRecord | None = None
        self._started_at = 0.0
        self._retry_at: float | None = None
        self._num_failures = 0
        self._was_steady = False

    def adopt(self) -> bool:
        """Take over what an earlier supervisor started, if it is the same and answers; end it
        otherwise."""
        record = self._directory.find(self.spec.name)
        if record is None or not is_alive(record):
            return False
        if record.digest != self.spec.digest:
            why = "it was started with other settings"
        elif not answers(self.spec.host, self.spec.port, "/healthz"):
            why = f"it does not answer on port {self.spec.port}"
        else:
            self._say(f"adopted {self.spec.name}, pid {record.pid}")
            self._record = record
            self._started_at = self._clock()
            return True
        self._say(f"ending {self.spec.name}, pid {record.pid}: {why}")
        terminate(record, _LEFTOVER_GRACE_SECONDS)
        return False

    def start(self) -> None:
        """Start it unless it was adopted."""
        if self._record is None:
            self._record = self._start_one()
            self._started_at = self._clock()
            self._retry_at = None

    def _start_one(self) -> ProcessRecord:
        return self._directory.start(
            self.spec.name,
            self.spec.role,
            self.spec.argv,
            self.spec.digest,
            environment=self.spec.whole_environment,
        )

    def check(self) -> None:
        """Start it again when it has died, after a pause that grows.

        Raises GivenUpError when that cannot help.
        """
        if self._record is None:
            if self._retry_at is not None and self._clock() >= self._retry_at:
                self.start()
                self._note("started", "again, after it failed")
            return
        if is_alive(self._record):
            self._was_steady |= self._clock() - self._started_at > _STEADY_SECONDS
            return
        self._note_death(self._record)

    def _note_death(self, record: ProcessRecord) -> None:
        exit_code = find_exit_code(record)
        how = describe_exit(exit_code)
        self._note("failed", how)
        if exit_code == REFUSED_EXIT_CODE:
            raise GivenUpError(last_line(record.log_path), REFUSED_EXIT_CODE)
        lasted = self._clock() - self._started_at > _STEADY_SECONDS
        self._num_failures = 1 if lasted else self._num_failures + 1
        if self._num_failures > _MAX_FAILURES_AT_START and not self._was_steady:
            raise GivenUpError(
                f"{self.spec.name} does not stay up: {how}. Its last words: "
                f"{last_line(record.log_path)} (all of them: {record.log_path})",
                1,
            )
        delay = delay_seconds(self._num_failures)
        self._say(f"{self.spec.name}: {how}; starting it again in {delay:.0f} s")
        self._record = None
        self._retry_at = self._clock() + delay

    def _note(self, what: str, reason: str) -> None:
        """Enter it into the history; that must keep nothing from being started again."""
        event = ProcessEvent(
            at_unix_ns=wall_clock(),
            name=self.spec.name,
            role=self.spec.role,
            what=what,
            reason=reason,
        )
        try:
            self._history.note(event)
        except OSError as error:
            self._say(f"{self.spec.name}: that it {what} is not in the history: {error}")


def last_line(log_path: str, not_of: str | None = None) -> str:
    """The last line that is not empty; empty when there is none.

    `not_of`: the id of another process that writes to the same log, whose lines do not count.
    """
    with Path(log_path).open(errors="replace") as log:
        stripped = (line.strip() for line in log)
        own = (line for line in stripped if line and (not_of is None or not_of not in line))
        lines = collections.deque(own, maxlen=1)
    return lines[0].removeprefix("Error: ") if lines else ""
