"""What is done to the installation."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from controlplane.store.connection import default_paths
from dataplane.engine import ReplicaStatus
from dataplane.processes import kill_group
from ops.chaos.cases import Fault
from ops.chaos.place import Place
from ops.chaos.usurper import usurp

_AWAY_SECONDS = 2.0
_USURPED_SECONDS = 5.0


class KillsDatabase(Protocol):
    """A PostgreSQL server that can be ended and started."""

    def stop(self) -> None:
        """As if it were killed."""

    def start(self) -> None:
        """Again, over the same data."""


@dataclass(frozen=True, slots=True)
class Arms:
    """The engine config and model that each arm's replicas run, as `name@number`."""

    stable: tuple[str, str]
    candidate: tuple[str, str]


@dataclass(slots=True)
class Striker:
    """Inflicts faults, and knows whom it killed when."""

    place: Place
    server: KillsDatabase | None
    """None: the databases are SQLite files."""
    killed: dict[str, int] = field(default_factory=dict)
    """Unix time in nanoseconds, by replica."""

    def strike(self, fault: Fault, arms: Arms) -> bool:
        """False: there was nobody to strike."""
        match fault:
            case Fault.NONE:
                return True
            case Fault.CONTROL_PLANE:
                return self._kill_control_plane()
            case Fault.SUPERVISOR:
                return self._kill_supervisor()
            case Fault.CANDIDATE_REPLICA:
                return self.kill_replica(arms.candidate)
            case Fault.STABLE_REPLICA:
                return self.kill_replica(arms.stable)
            case Fault.BOTH_ARMS:
                return self.kill_replica(arms.candidate) and self.kill_replica(arms.stable)
            case Fault.DATABASE:
                return self._take_database_away()
            case Fault.OTHER_REVISION:
                return self._answer_for(arms)

    def kill_replica(self, arm: tuple[str, str]) -> bool:
        """The first that runs of an arm."""
        for replica_id in self._replicas_of(arm):
            process = self.place.process_of(replica_id)
            if process is not None:
                self.killed[replica_id] = time.time_ns()
                kill_group(process)
                return True
        return False

    def _replicas_of(self, arm: tuple[str, str]) -> list[str]:
        return [
            lane["replica_id"]
            for lane in self.place.lanes()
            if (lane["engine_config_revision"], lane["model_revision"]) == arm
        ]

    def _kill_control_plane(self) -> bool:
        alive = self.place.installation.alive("controlplane")
        for record in alive:
            kill_group(record)
        return bool(alive)

    def _kill_supervisor(self) -> bool:
        """Both at once, and a new supervisor a moment later, which adopts what runs."""
        installation = self.place.installation
        assert installation.supervisor is not None
        installation.supervisor.kill()
        installation.supervisor.wait()
        self._kill_control_plane()
        installation.start()
        return True

    def _take_database_away(self) -> bool:
        if self.server is not None:
            self.server.stop()
            time.sleep(_AWAY_SECONDS)
            self.server.start()
            return True
        with contextlib.ExitStack() as stack:
            for path in default_paths(self.place.installation.state_dir).values():
                stack.enter_context(_locked(path))
            time.sleep(_AWAY_SECONDS)
        return True

    def _answer_for(self, arms: Arms) -> bool:
        """The candidate's replica is killed, and at once a stable one answers at its port."""
        candidate, other = self._port_of(arms.candidate), self._port_of(arms.stable)
        if candidate is None or other is None or not self.kill_replica(arms.candidate):
            return False
        usurp(candidate, other, _USURPED_SECONDS)
        return True

    def _port_of(self, arm: tuple[str, str]) -> int | None:
        """Of the first replica of an arm, as it says itself."""
        for replica_id in self._replicas_of(arm):
            path = self.place.installation.state_dir / "replicas" / replica_id / "status.json"
            address = msgspec.json.decode(path.read_bytes(), type=ReplicaStatus).address
            return None if address is None else int(address.rpartition(":")[2])
        return None


def keep_killing(striker: Striker, arm: tuple[str, str], is_over: Callable[[], bool]) -> int:
    """Every replica of an arm as soon as it runs, until it is over; how many."""
    num_killed = 0
    while not is_over():
        num_killed += striker.kill_replica(arm)
        time.sleep(0.05)
    return num_killed


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else can write meanwhile."""
    connection = sqlite3.connect(path, timeout=10, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()
