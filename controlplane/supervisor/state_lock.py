"""The locks on a state directory: one supervisor has it, and one control plane.

Two of a kind would undo each other's work. The kernel gives a lock up with the process that has
it, so one that was killed leaves nothing to clear away.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.supervisor.child import GivenUpError


@contextmanager
def state_lock(state_dir: Path, file_name: str, holder: str) -> Iterator[None]:
    """Inside, no other `holder` has `state_dir`, which is made if need be.

    Raises GivenUpError while another one has it, and when it cannot be written in.
    """
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = (state_dir / file_name).open("a+")
    except OSError as error:
        raise GivenUpError(
            f"the state directory {state_dir} cannot be used ({error.strerror}): make it "
            f"writable, or name another one with --state-dir",
            1,
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise GivenUpError(
                f"another {holder} (pid {file.read().strip()}) has {state_dir}: end it, or name "
                f"another directory with --state-dir",
                1,
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
