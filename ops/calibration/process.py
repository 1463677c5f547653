"""Processes that a measurement starts, and ends however it ends."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")

_STOP_SECONDS = 30.0
_NONE_MORE: Mapping[str, str] = {}


class NotStartedError(Exception):
    """A process ended, or took too long, before it served; with the end of its log."""


@contextlib.contextmanager
def running(
    command: Sequence[str], log_path: Path, variables: Mapping[str, str] = _NONE_MORE
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block, and what it started with it. `variables` are added to
    our environment."""
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **variables},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    # Its own children may be left, even where it went by itself.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_for(
    find: Callable[[], Found | None],
    process: subprocess.Popen[bytes],
    log_path: Path,
    seconds: float,
) -> Found:
    """What `find` finds first. Raises NotStartedError when the process ends before, or after so
    many seconds."""
    deadline = time.monotonic() + seconds
    while (found := find()) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            words = log_path.read_text(errors="replace").splitlines()[-5:]
            raise NotStartedError(f"it does not serve; {log_path} ends with: {' | '.join(words)}")
        time.sleep(0.2)
    return found
