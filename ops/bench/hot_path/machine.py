"""The machine that a bench runs on: its cores, its load, and who used how much of them.

Server processes go on one core and the load client on another. Other processes of the machine
are not kept away from either, so how much they used meanwhile is told beside each figure.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STEAL = 7  # of the first line of /proc/stat
_NOT_USED = frozenset({3, 4, _STEAL})  # idle, iowait
_UTIME, _STIME, _RESIDENT = 11, 12, 21  # of /proc/PID/stat, after the name
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cores:
    """Where what runs."""

    server: int
    client: int

    @property
    def are_apart(self) -> bool:
        """The client does not take the servers' time."""
        return self.server != self.client

    def tell(self) -> str:
        """For a reader."""
        if not self.are_apart:
            return f"everything shares core {self.server}: figures hold the client's own work"
        return f"stub and gateway on core {self.server}, load client on core {self.client}"


def choose_cores() -> Cores:
    """The first two that this process may use; one twice where there is no other."""
    usable = sorted(os.sched_getaffinity(0))
    return Cores(server=usable[0], client=usable[1] if len(usable) > 1 else usable[0])


@contextlib.contextmanager
def on_core(core: int) -> Iterator[None]:
    """Run on `core` alone, and let every process that is started inside inherit that."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def raise_priority(nice: int) -> str:
    """Put this process, and what the bench starts from now on, at a nice value; in words for a
    reader. Below 0 other processes of the machine hardly disturb a run; only root may.
    """
    if not nice:
        return "other processes are not kept away"
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        share_priority(os.getpid())
    except PermissionError as error:
        raise SystemExit(f"--nice {nice} is not allowed ({error.strerror}): leave it out") from None
    return f"everything of the bench runs at nice {nice}"


def share_priority(pid: int) -> None:
    """Give the session of `pid` this process's nice value.

    Where the kernel groups processes by session, a nice value counts only within its group, and
    the groups have one of their own.
    """
    autogroup = Path(f"/proc/{pid}/autogroup")
    if autogroup.exists():
        autogroup.write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))


def load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]


def processor_seconds(pid: int) -> float:
    """What a process has used of processors so far."""
    fields = _stat_fields(pid)
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_SECOND


def waiting_seconds(pid: int) -> float:
    """How long a process's first thread, its event loop, has stood ready and been given no core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in memory now."""
    return int(_stat_fields(pid)[_RESIDENT]) * _PAGE_BYTES


def _stat_fields(pid: int) -> list[str]:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()


def _core_seconds() -> tuple[float, float]:
    """Of all cores together: used by whoever, and taken away by the machine's own host."""
    fields = [int(f) for f in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    stolen = fields[_STEAL]
    used = sum(value for place, value in enumerate(fields) if place not in _NOT_USED)
    return used / _TICKS_PER_SECOND, stolen / _TICKS_PER_SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Processor time between two moments."""

    seconds_by_name: Mapping[str, float]
    waiting_by_name: Mapping[str, float]
    """Share of the time in which an event loop stood ready and was given no core."""
    cores_of_others: float
    """Cores that were used on the mean by processes that are not the bench's."""
    cores_stolen: float
    """Cores that the machine's host gave to others."""


class UseWatch:
    """Looks at the processors before and after."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = {**pids, "client": os.getpid()}
        self._before = self._look(processor_seconds)
        self._waited = self._look(waiting_seconds)
        self._used, self._stolen = _core_seconds()
        self._began = time.monotonic()

    def used(self) -> Used:
        """Since the watch was made."""
        seconds = time.monotonic() - self._began
        now, (used, stolen) = self._look(processor_seconds), _core_seconds()
        waited = self._look(waiting_seconds)
        by_name = {name: now[name] - self._before[name] for name in self._pids}
        others = used - self._used - sum(by_name.values())
        return Used(
            seconds_by_name=by_name,
            waiting_by_name={
                name: (waited[name] - self._waited[name]) / seconds for name in self._pids
            },
            cores_of_others=max(0.0, others) / seconds,
            cores_stolen=(stolen - self._stolen) / seconds,
        )

    def _look(self, read: Callable[[int], float]) -> dict[str, float]:
        return {name: read(pid) for name, pid in self._pids.items()}
