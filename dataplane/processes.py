"""Operating system processes that somebody owns: started, on record, and surely ended.

A process outlives whoever started it (a supervisor that was killed, a control plane that
restarts), so what it is stands on disk, in `<state>/processes/<name>.json`. Three things
make the record trustworthy:

- a process waits at a gate until its record is written, so none runs unrecorded;
- a record names the kernel's start time beside the pid, so a reused pid is never mistaken;
- each process leads a session of its own, so the terminal's Ctrl-C does not reach it and
  its whole group can be ended with it;
- a record names the directory that it was written in, so that a copy of it has nobody's
  processes: whoever starts from a copy neither adopts nor ends what runs from the original.
"""

import os
import select
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from dataplane.atomic_file import replace_file
from dataplane.clock import WallClock, wall_clock
from dataplane.process_mark import ProcessMark, state_identity

_MAX_LOG_BYTES = 16 * 2**20
_THREADS_SECONDS = 1.0

# `read` succeeds once the record is written; at end of file (the starter died) nothing runs.
_GATE = ("/bin/sh", "-c", 'read -r _ && exec "$@" </dev/null', "gate")

# What Python ignores, and what an interactive shell may have ignored for us.
_DEFAULT_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """One process as it was started."""

    name: str
    """Unique in its directory: a replica id, a gateway's name."""
    role: str
    """What it is: controlplane, gateway or replica."""
    pid: int
    """Also the id of its session and process group."""
    start_ticks: int
    """When the kernel started it, in clock ticks since boot."""
    boot_id: str
    argv: tuple[str, ...]
    digest: str
    """SHA-256 of all it was started for: who compares it decides about adoption."""
    log_path: str
    started_at_unix_ns: int
    state: str = ""
    """The state directory that it was started in, as `state_identity` has it; "": not told."""
    fencing_token: int = 0
    """Of a replica; 0: it has none."""


class ProcessDirectory:
    """The processes on record under one state directory. Safe from several processes as long
    as each name has one owner."""

    def __init__(self, state_dir: Path, clock: WallClock = wall_clock) -> None:
        self.state_dir = state_dir.absolute()
        self._records_dir = self.state_dir / "processes"
        self._logs_dir = self.state_dir / "logs"
        self._clock = clock

    def start(
        self,
        name: str,
        role: str,
        argv: Sequence[str],
        digest: str,
        log_name: str | None = None,
        environment: Mapping[str, str] | None = None,
        fencing_token: int = 0,
    ) -> ProcessRecord:
        """Start `argv` as `name`, with its output appended to `<state>/logs/<log_name>.log`,
        where `log_name` is `name` unless several share a log. `environment`: None is our own; the
        process's mark is added to it, of which `fencing_token` is a part.

        Raises RuntimeError when a process of that name is alive, OSError when it cannot be
        started. A program that does not exist ends at once with exit code 127.
        """
        current = self.find(name)
        if current is not None and is_alive(current):
            raise RuntimeError(f"process {name} is alive with pid {current.pid}: stop it first")
        log_path = self.log_path(log_name or name)
        _rotate(log_path)
        state = state_identity(self.state_dir)
        mark = ProcessMark(state=state, role=role, name=name, fencing_token=fencing_token)
        whole = {**(os.environ if environment is None else environment), **mark.environment()}
        gate_read, gate_write = os.pipe()
        pid = None
        is_recorded = False
        try:
            try:
                pid = _spawn(argv, gate_read, log_path, whole)
            finally:
                os.close(gate_read)
            record = ProcessRecord(
                name=name,
                role=role,
                pid=pid,
                start_ticks=_stat_of(pid).start_ticks,
                boot_id=_boot_id(),
                argv=tuple(argv),
                digest=digest,
                log_path=str(log_path),
                started_at_unix_ns=self._clock(),
                state=state,
                fencing_token=fencing_token,
            )
            replace_file(self._path(name), msgspec.json.encode(record))
            os.write(gate_write, b"go\n")
            is_recorded = True
        finally:
            os.close(gate_write)
            if pid is not None and not is_recorded:
                os.waitpid(pid, 0)  # the gate stays shut, so it ends; nobody else would reap it
        return record

    def log_path(self, name: str) -> Path:
        """Where the output of `name` goes."""
        return self._logs_dir / f"{name}.log"

    def find(self, name: str) -> ProcessRecord | None:
        """What is on record under `name`, alive or dead; None also for what was copied here from
        another directory."""
        try:
            data = self._path(name).read_bytes()
            state = state_identity(self.state_dir)
        except FileNotFoundError:
            return None
        record = _decode(data, self._path(name))
        return record if record.state in ("", state) else None

    def records(self) -> list[ProcessRecord]:
        """Everything on record, alive or dead, by name."""
        paths = sorted(self._records_dir.glob("*.json"))
        found = (self.find(path.stem) for path in paths)
        return [record for record in found if record is not None]

    def forget(self, name: str) -> None:
        """Drop a dead process from the record; its log stays.

        Raises RuntimeError when it is alive: it would become an orphan.
        """
        record = self.find(name)
        if record is not None and is_alive(record):
            raise RuntimeError(f"process {name} is alive with pid {record.pid}: stop it first")
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        if not name or "/" in name or name.startswith("."):
            raise ValueError(f"{name!r} cannot name a process: it must be a plain file name")
        return self._records_dir / f"{name}.json"


def is_alive(record: ProcessRecord) -> bool:
    """The process itself runs; a zombie is dead, another process with its pid is a stranger."""
    stat = _find_stat(record.pid)
    return stat is not None and _is_same(stat, record) and stat.state not in "ZX"


def find_exit_code(record: ProcessRecord) -> int | None:
    """Reap the process if it is a child of ours that ended, and return how (-9: by SIGKILL).

    None while it runs, when another process's child it was, and when it was reaped before.
    """
    stat = _find_stat(record.pid)
    if stat is None or not _is_same(stat, record):
        return None
    if stat.state in "ZX":
        _wait_for_threads(record.pid)
    try:
        pid, status = os.waitpid(record.pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if pid else None


def wait_for_exit(record: ProcessRecord, timeout_seconds: float | None) -> bool:
    """Block until the process, ours or not, has ended; False when it outlasts the timeout.

    None waits for as long as it takes.
    """
    pidfd = _open_pidfd(record)
    if pidfd is None:
        return True
    try:
        readable, _, _ = select.select([pidfd], [], [], timeout_seconds)
        return bool(readable)
    finally:
        os.close(pidfd)


def send_signal(record: ProcessRecord, signal_number: signal.Signals) -> bool:
    """Signal the process alone; False when it has ended. Never reaches a stranger."""
    pidfd = _open_pidfd(record)
    if pidfd is None:
        return False
    try:
        signal.pidfd_send_signal(pidfd, signal_number)
    except ProcessLookupError:
        return False
    finally:
        os.close(pidfd)
    return True


def kill_group(record: ProcessRecord) -> None:
    """End the process and everything it started that stayed in its group, at once."""
    stat = _find_stat(record.pid)
    if stat is not None and not _is_same(stat, record):
        return  # a stranger has the number, which the kernel only gives away once a group is gone
    try:
        os.killpg(record.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def terminate(record: ProcessRecord, grace_seconds: float) -> int | None:
    """SIGTERM, wait for at most `grace_seconds`, then SIGKILL what is left of the group.

    Blocks until the process is gone. Returns its exit code where it was a child of ours.
    """
    send_signal(record, signal.SIGTERM)
    wait_for_exit(record, grace_seconds)
    # Before reaping: a zombie still keeps its number from being given away.
    kill_group(record)
    wait_for_exit(record, None)
    return find_exit_code(record)


def describe_exit(exit_code: int | None) -> str:
    """In words; None is an end that nobody of ours saw."""
    if exit_code is None:
        return "it ended unobserved"
    if exit_code < 0:
        return f"it was ended by {signal.Signals(-exit_code).name}"
    return f"it exited with code {exit_code}"


def _spawn(
    argv: Sequence[str], gate_read: int, log_path: Path, environment: Mapping[str, str]
) -> int:
    log_flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.posix_spawn(
        _GATE[0],
        (*_GATE, *argv),
        environment,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, gate_read, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log_path), log_flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_DEFAULT_SIGNALS,
    )


def _rotate(log_path: Path) -> None:
    log_path.parent.mkdir(parents=True, exist_ok=True)
    if log_path.exists() and log_path.stat().st_size > _MAX_LOG_BYTES:
        log_path.replace(log_path.with_name(log_path.name + ".1"))


def _decode(data: bytes, path: Path) -> ProcessRecord:
    try:
        return msgspec.json.decode(data, type=ProcessRecord)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ValueError(
            f"{path} is no process record ({error}): end the process it was about, if it "
            f"still runs, and remove the file"
        ) from error


def _open_pidfd(record: ProcessRecord) -> int | None:
    """A handle on this very process, None when it has ended."""
    try:
        pidfd = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return None
    # Checked after opening: from here on the handle cannot come to mean another process.
    if is_alive(record):
        return pidfd
    os.close(pidfd)
    return None


def _wait_for_threads(pid: int) -> None:
    """A dead process can be reaped once the last of its threads has ended, a moment later."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        select.select([pidfd], [], [], _THREADS_SECONDS)
    finally:
        os.close(pidfd)


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    start_ticks: int


def _find_stat(pid: int) -> _Stat | None:
    try:
        return _stat_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return None


def _stat_of(pid: int) -> _Stat:
    text = Path(f"/proc/{pid}/stat").read_text()
    # The second field, the program's name in brackets, may itself hold spaces and brackets.
    fields = text[text.rindex(")") + 2 :].split()
    return _Stat(state=fields[0], start_ticks=int(fields[19]))


def _is_same(stat: _Stat, record: ProcessRecord) -> bool:
    return stat.start_ticks == record.start_ticks and _boot_id() == record.boot_id


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
