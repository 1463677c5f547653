"""The machine that a bench runs on: its cores, its load, and who used how much of them.

Server processes go on one core and the load client on another. Other processes of the machine
are not kept away from either, so how much they used meanwhile is told beside each figure.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS = (3, 4)  # idle, iowait
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


def load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]


def processor_seconds(pid: int) -> float:
    """What a process has used of processors so far."""
    fields = _stat_fields(pid)
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_SECOND


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in memory now."""
    return int(_stat_fields(pid)[_RESIDENT]) * _PAGE_BYTES


def _stat_fields(pid: int) -> list[str]:
    text = Path(f"/proc/{pid}/stat").read_text()
    return text.rpartition(")")[2].split()


def _busy_seconds() -> float:
    """Of all cores together, whoever used them."""
    first = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    return (
        sum(int(value) for place, value in enumerate(first) if place not in _IDLE_FIELDS)
        / _TICKS_PER_SECOND
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Used:
    """Processor seconds between two moments."""

    by_name: Mapping[str, float]
    others: float
    """Of processes that are not the bench's."""


class UseWatch:
    """Looks at the processors before and after."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = {**pids, "client": os.getpid()}
        self._before = self._look()
        self._busy = _busy_seconds()

    def used(self) -> Used:
        """Since the watch was made."""
        now = self._look()
        by_name = {name: now[name] - self._before[name] for name in self._pids}
        others = _busy_seconds() - self._busy - sum(by_name.values())
        return Used(by_name=by_name, others=max(0.0, others))

    def _look(self) -> dict[str, float]:
        return dict(zip(self._pids, _each_processor_seconds(self._pids.values()), strict=True))


def _each_processor_seconds(pids: Iterable[int]) -> list[float]:
    return [processor_seconds(pid) for pid in pids]
