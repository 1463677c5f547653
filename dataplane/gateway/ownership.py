"""Who owns a directory of a gateway process: the one that holds its lock, until it dies.

Each gateway process keeps its files under a directory named after its gateway id, which is
never reused. The kernel lets the lock go when the process ends, however it ends; that is how
a successor tells a predecessor that died from one that is still draining.
"""

import contextlib
import fcntl
import os
import time
from dataclasses import dataclass
from pathlib import Path

LOCK_FILE = "lock"

_CLAIM_TRIES = 20
_CLAIM_PAUSE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class OwnedDirectory:
    """A directory that nobody else writes to while this object is open."""

    path: Path
    _lock: int

    def release(self) -> None:
        """Let others claim it."""
        os.close(self._lock)

    def remove(self) -> None:
        """Delete what is left in it, and let go."""
        for file in self.path.iterdir():
            file.unlink(missing_ok=True)
        # A successor that looks for the abandoned may have put its own lock here meanwhile.
        with contextlib.suppress(OSError):
            self.path.rmdir()
        self.release()


def claim(path: Path) -> OwnedDirectory | None:
    """Own `path`, making it if needed; None when a living process owns it, or is removing it."""
    path.mkdir(parents=True, exist_ok=True)
    try:
        lock = os.open(path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    if not _is_at(path / LOCK_FILE, lock):
        os.close(lock)
        return None
    return OwnedDirectory(path, lock)


def _is_at(path: Path, file: int) -> bool:
    """The open `file` is still the one at `path`: its owner may have removed it before the lock."""
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def claim_new(path: Path) -> OwnedDirectory | None:
    """As `claim`, of a directory under a name that is ours alone.

    A successor that looks for the abandoned may have it for a moment, before we lock it.
    """
    for _ in range(_CLAIM_TRIES):
        if (owned := claim(path)) is not None:
            return owned
        time.sleep(_CLAIM_PAUSE_SECONDS)
    return None


def claim_abandoned(directory: Path) -> list[OwnedDirectory]:
    """Own every directory under `directory` whose process is gone, in the order of their names.

    One without a lock file was made this moment, by a process that is about to lock it.
    """
    if not directory.is_dir():
        return []
    paths = [path for path in sorted(directory.iterdir()) if (path / LOCK_FILE).exists()]
    claimed = (claim(path) for path in paths)
    return [owned for owned in claimed if owned is not None]
