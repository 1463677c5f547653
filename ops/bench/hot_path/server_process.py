"""A process under test: started on its core, known by its addresses, ended with the bench."""

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ops.bench.hot_path.machine import on_core, share_priority

_START_SECONDS = 120.0
_STOP_SECONDS = 20.0


class NotStartedError(Exception):
    """A process ended, or said nothing, instead of listening; the message holds its last words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProcess:
    """One process that runs."""

    name: str
    popen: subprocess.Popen[bytes]
    log_path: Path

    @property
    def pid(self) -> int:
        """Its id."""
        return self.popen.pid

    def last_words(self) -> str:
        """The end of its log."""
        return " | ".join(self.log_path.read_text(errors="replace").splitlines()[-4:])

    def check_alive(self) -> None:
        """Raises NotStartedError once it has ended."""
        if self.popen.poll() is not None:
            raise NotStartedError(
                f"{self.name} ended with {self.popen.returncode}: {self.last_words()}"
            )


@contextlib.contextmanager
def running(
    name: str,
    command: Sequence[str],
    core: int,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    is_read: bool = False,
) -> Iterator[ServerProcess]:
    """Start a process on `core`, and end it at the end. What it says goes into its log; with
    `is_read` its standard output is a pipe instead."""
    log_path = folder / f"{name}.log"
    with log_path.open("ab") as log, on_core(core):
        popen = subprocess.Popen(
            command,
            stdout=subprocess.PIPE if is_read else log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    try:
        share_priority(popen.pid)
        yield ServerProcess(name=name, popen=popen, log_path=log_path)
    finally:
        _end(popen)
        if popen.stdout is not None:
            popen.stdout.close()


@contextlib.contextmanager
def announced(
    name: str, module: str, options: Sequence[str], core: int, folder: Path
) -> Iterator[tuple[ServerProcess, dict[str, str]]]:
    """As `running`, of a module of this package that prints its addresses once it listens."""
    command = [sys.executable, "-m", f"ops.bench.hot_path.{module}", *options]
    with running(name, command, core, folder, is_read=True) as process:
        yield process, _read_addresses(process)


def _read_addresses(process: ServerProcess) -> dict[str, str]:
    stream = process.popen.stdout
    assert stream is not None  # it is read
    deadline = time.monotonic() + _START_SECONDS
    while not select.select([stream], [], [], 0.1)[0]:
        process.check_alive()
        if time.monotonic() > deadline:
            raise NotStartedError(f"{process.name} does not listen after {_START_SECONDS:g} s")
    line = stream.readline()
    if not line:
        process.popen.wait(_STOP_SECONDS)
        process.check_alive()
    addresses: dict[str, str] = json.loads(line)
    return addresses


def _end(popen: subprocess.Popen[bytes]) -> None:
    popen.terminate()
    try:
        popen.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        popen.kill()
        popen.wait()
