"""A moment of quiet: every client has gone, and nothing may be held for any of them.

What is looked at: every kind of lease of the gateway, its counts against what their holders have,
its tasks, its open files; of every replica its sequences, its unreleased requests and its blocks.
"""

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from dataplane import names
from dataplane.admission.retry_budget import MAX_REMEMBERED
from dataplane.gateway.holdings import Remembered
from dataplane.routing.prefix_index import MAX_BLOCKS
from ops.bench.hot_path.machine import resident_bytes
from ops.endurance.cancel_documents import NUM_REPLICAS
from ops.endurance.cancel_plan import TENANTS
from ops.endurance.installation import Installation, NotInTimeError, open_files, wait_for

_SETTLE_SECONDS = 60.0
_MAX_MORE_FILES = 6
"""Connections to the control plane come and go."""
_NUM_DEPLOYMENTS = 2
_MOST_REMEMBERED = {
    Remembered.ROUTING: _NUM_DEPLOYMENTS * (MAX_BLOCKS + NUM_REPLICAS),
    Remembered.UNANSWERED_BODIES: _NUM_DEPLOYMENTS * MAX_REMEMBERED,
    Remembered.TENANTS: _NUM_DEPLOYMENTS * (len(TENANTS) + 1),
    # Deadlines of those that left are dropped once they are more than twice those that wait.
    Remembered.QUEUE: _NUM_DEPLOYMENTS * 256,
}
_HELD_BY_REPLICA = (
    names.REPLICA_ACTIVE_SEQUENCES,
    names.REPLICA_WAITING_REQUESTS,
    names.REPLICA_UNRELEASED_REQUESTS,
    names.REPLICA_KV_BLOCKS_REFERENCED,
    names.REPLICA_LEAKED_REQUESTS_TOTAL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """What was found at one of them."""

    num_left: int
    """Requests that were cancelled before."""
    settle_seconds: float
    """From the last client's leaving until nothing was held; the longest that was waited if
    something still is."""
    remembered: dict[str, int]
    num_tasks: int
    num_open_files: int
    resident_bytes: int
    """Of the gateway."""
    wrong: tuple[str, ...]


def find_held(holdings: Mapping[str, Any]) -> list[str]:
    """What a gateway holds that has nothing in flight, and which of its counts do not fit."""
    held = [f"{number} {kind} are held" for kind, number in holdings["held"].items() if number]
    return held + [f"counts do not fit: {why}" for why in holdings["broken"]]


class QuietWatch:
    """Looks at an installation that was given nothing yet, and later at moments of quiet."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        holdings = installation.holdings()
        self._tasks = Counter(holdings["tasks"])
        self._num_open_files = self._count_open_files()
        self.peaks: Counter[str] = Counter()
        """The most that was held of each kind when it was looked."""

    def look(self, num_left: int) -> Quiet:
        """Wait until nothing is held, or for as long as anything may take, and look."""
        began = time.monotonic()
        wrong: list[str] = []
        try:
            wait_for(self._is_quiet, _SETTLE_SECONDS, "nothing to be held any more")
        except NotInTimeError as error:
            wrong.append(str(error))
        settle_seconds = time.monotonic() - began
        holdings = self._installation.holdings()
        num_open_files = self._count_open_files()
        wrong += find_held(holdings)
        wrong += [
            f"{n} {kind} are remembered, more than {_MOST_REMEMBERED[kind]}"
            for kind, n in holdings["remembered"].items()
            if n > _MOST_REMEMBERED[kind]
        ]
        tasks = Counter(holdings["tasks"])
        wrong += [f"{n} more tasks {name}" for name, n in (tasks - self._tasks).items()]
        if num_open_files > self._num_open_files + _MAX_MORE_FILES:
            wrong.append(f"{num_open_files} files are open, {self._num_open_files} at the start")
        wrong += self._find_held_by_replicas()
        return Quiet(
            num_left=num_left,
            settle_seconds=settle_seconds,
            remembered=holdings["remembered"],
            num_tasks=tasks.total(),
            num_open_files=num_open_files,
            resident_bytes=self._read_resident_bytes(),
            wrong=tuple(wrong),
        )

    def look_in_flight(self) -> list[str]:
        """While clients come and go: what does not fit now."""
        try:
            holdings = self._installation.holdings()
        except httpx.HTTPError as error:
            return [f"the gateway does not answer: {error}"]
        for kind, number in holdings["held"].items():
            self.peaks[kind] = max(self.peaks[kind], number)
        return [f"counts do not fit in flight: {why}" for why in holdings["broken"]]

    def _is_quiet(self) -> bool:
        return not any(self._installation.holdings()["held"].values()) and not (
            self._find_held_by_replicas()
        )

    def _find_held_by_replicas(self) -> list[str]:
        gauges = self._installation.replica_gauges()
        wrong = [
            f"replica {replica_id}: {name} is {gauge[name]:g}"
            for replica_id, gauge in gauges.items()
            for name in _HELD_BY_REPLICA
            if gauge[name]
        ]
        return wrong + [
            f"replica {replica_id}: {gauge[names.REPLICA_KV_BLOCKS_FREE]:g} of "
            f"{gauge[names.REPLICA_KV_BLOCKS]:g} blocks are free"
            for replica_id, gauge in gauges.items()
            if gauge[names.REPLICA_KV_BLOCKS_FREE] != gauge[names.REPLICA_KV_BLOCKS]
        ]

    def _gateway_pid(self) -> int:
        [gateway] = self._installation.alive("gateway")
        return gateway.pid

    def _count_open_files(self) -> int:
        return sum(open_files(self._gateway_pid()).values())

    def _read_resident_bytes(self) -> int:
        return resident_bytes(self._gateway_pid())
