"""The processes of this machine as the kernel shows them, and how one of them is surely ended."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dataplane.process_mark import ProcessMark, find_mark, list_pids

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MAX_COMMAND = 200
_DEVICES = (
    "nvidia-smi", "--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits",
)  # fmt: skip
_DEVICES_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProcess:
    """One that runs. A zombie, whose parent has not asked how it ended, does not."""

    pid: int
    start_ticks: int
    """When it was started, in clock ticks since boot: with the pid it names one process."""
    session: int
    """Pid of its session's leader, which may have ended."""
    resident_bytes: int
    command: str
    mark: ProcessMark | None
    """None: it has none, or shows none."""


def list_processes() -> list[LiveProcess]:
    """All that can be seen, by pid; [] on a system without /proc."""
    found = (find_process(pid) for pid in sorted(list_pids()))
    return [each for each in found if each is not None]


def find_process(pid: int) -> LiveProcess | None:
    """None: nothing of that number runs."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    # The second field, the program's name in brackets, may itself hold spaces and brackets.
    fields = text[text.rindex(")") + 2 :].split()
    if fields[0] in "ZX":
        return None
    command = b" ".join(words).decode(errors="replace").strip()
    return LiveProcess(
        pid=pid,
        start_ticks=int(fields[19]),
        session=int(fields[3]),
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
        command=command[:_MAX_COMMAND],
        mark=find_mark(pid),
    )


def end_process(pid: int, start_ticks: int) -> None:
    """End exactly this one, at once. Nothing happens where it has ended, whoever has its number.

    Raises PermissionError for another user's.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        # Looked up after opening: from here on the handle cannot come to mean another process.
        found = find_process(pid)
        if found is not None and found.start_ticks == start_ticks:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        os.close(pidfd)


def device_bytes_by_pid() -> dict[int, int] | None:
    """What processes have of the memory of NVIDIA devices; None where nothing tells.

    In a container the driver may name processes by numbers of the machine, and knows none of ours.
    """
    try:
        done = subprocess.run(
            _DEVICES, capture_output=True, text=True, timeout=_DEVICES_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found: dict[int, int] = {}
    for line in done.stdout.splitlines():
        pid, _, mebibytes = line.partition(",")
        if pid.strip().isdigit() and mebibytes.strip().isdigit():
            found[int(pid)] = found.get(int(pid), 0) + int(mebibytes) * 2**20
    return found
