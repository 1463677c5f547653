"""What became of the gateways and control planes of one state directory, and when one of its
databases was away.

A file, one line of JSON for each event: it is the supervisor who sees a control plane die, and a
dead one takes no reports. The newest are kept, in two generations of the file; what is older
goes with the older one. Several processes may write at once.
"""

import fcntl
import os
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

_FILE = "process-events.jsonl"
_MAX_BYTES = 128 * 2**10
"""Of one generation: some 700 events."""
_MAX_REASON = 1024
_ALL = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEvent:
    """One of them."""

    at_unix_ns: int
    name: str
    """Of the process's place, such as gateway-0; config or requests, of a database."""
    role: str
    """gateway, controlplane or database."""
    what: str
    """failed: it ended though it was wanted or had not drained yet, or could not be replaced;
    started: again, after that; refused: the control
    plane no longer takes its key; accepted: it does again; lost: the control plane's connection
    to the database broke; regained: it has the database again."""
    reason: str


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(ProcessEvent)


class ProcessHistory:
    """Holds nothing open: any number of them may be about one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir.absolute() / _FILE
        self._older = self._path.with_name(f"{_FILE}.1")

    def note(self, event: ProcessEvent) -> None:
        """Keep it. Raises OSError when the disk takes no more."""
        # Between two ends of lines: what a full disk cut off before swallows nothing after it.
        line = b"\n%b\n" % _ENCODER.encode(replace(event, reason=event.reason[:_MAX_REASON]))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self._path, flags, 0o600)
        try:
            os.write(file, line)
            self._rotate(file)
        finally:
            os.close(file)

    def read(self, limit: int) -> list[ProcessEvent]:
        """The newest `limit`, the newest first."""
        events = [event for path in (self._older, self._path) for event in _read(path)]
        events.sort(key=lambda event: event.at_unix_ns)
        return events[::-1][:limit]

    def read_between(self, start_unix_ns: int, end_unix_ns: int, limit: int) -> list[ProcessEvent]:
        """The part of the history that lies within a time, newest first."""
        events = self.read(_ALL)
        return [each for each in events if start_unix_ns <= each.at_unix_ns < end_unix_ns][:limit]

    def _rotate(self, file: int) -> None:
        """One of several writers makes the file that has become too large the older one."""
        if os.fstat(file).st_size < _MAX_BYTES:
            return
        fcntl.flock(file, fcntl.LOCK_EX)
        if self._path.exists() and os.path.samestat(os.fstat(file), self._path.stat()):
            self._path.replace(self._older)


def _read(path: Path) -> list[ProcessEvent]:
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    found = (_decode(line) for line in lines if line)
    return [event for event in found if event is not None]


def _decode(line: bytes) -> ProcessEvent | None:
    """A line that was cut off says nothing."""
    try:
        return _DECODER.decode(line)
    except msgspec.DecodeError:
        return None
