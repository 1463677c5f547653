"""Whose a process is: a mark in its environment, which its children inherit.

A record says what was started; the mark says of a process that nobody has on record (its parent
was killed, its record was lost) that it is ours, and what it was started as. It names the state
directory by device and inode: a copy of a directory is another one, and a moved one is the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

MARK_VARIABLE = "PILOTHOUSE_PROCESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessMark:
    """What a process was started as."""

    state: str
    """Of which state directory: `device:inode`."""
    role: str
    """controlplane, gateway or replica."""
    name: str
    """As on record: a replica id, a gateway's name."""
    fencing_token: int = 0
    """Of a replica; 0: it has none."""

    def environment(self) -> dict[str, str]:
        """What tells it to the process and all its children."""
        return {MARK_VARIABLE: msgspec.json.encode(self).decode()}


def state_identity(state_dir: Path) -> str:
    """`device:inode` of a directory. Raises FileNotFoundError."""
    found = state_dir.stat()
    return f"{found.st_dev}:{found.st_ino}"


def passed_on(environment: Mapping[str, str]) -> dict[str, str]:
    """The mark alone, for a child that gets little else of `environment`."""
    return {key: value for key, value in environment.items() if key == MARK_VARIABLE}


def find_mark(pid: int) -> ProcessMark | None:
    """The mark of a process; None: it has none, has ended, or is another user's.

    A program that writes its title over its environment (vLLM's workers do) shows none.
    """
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{MARK_VARIABLE}=".encode()
    for entry in entries:
        if entry.startswith(prefix):
            return _decode(entry.removeprefix(prefix))
    return None


def list_pids() -> list[int]:
    """Every process that can be seen; [] on a system without /proc."""
    try:
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except FileNotFoundError:
        return []


def _decode(data: bytes) -> ProcessMark | None:
    try:
        return msgspec.json.decode(data, type=ProcessMark)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None  # of another version, or anybody's
