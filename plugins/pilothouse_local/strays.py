"""Processes that should not be: what replicas left behind, and who sits on the ports of others.

By the mark in its environment a process says for which replica of which state directory it was
started. While that very process of the replica is on record and alive, all that bears its mark is
its own; otherwise it is what remains of one that ended: a child that outlived it, a worker that
keeps a port, memory of a device, or all of these.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.hooks import StrayKind, StrayProcess
from dataplane.listening import ports_by_socket, sockets_of
from dataplane.live_process import LiveProcess, device_bytes_by_pid, end_process, list_processes
from dataplane.process_mark import ProcessMark


@dataclass(frozen=True, slots=True)
class Owner:
    """One start of one replica."""

    replica_id: str
    fencing_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """A replica whose process is on record and alive."""

    owner: Owner
    pid: int
    """Also the id of its session."""
    port: int | None
    """Where it serves on this machine, as far as it tells."""


class StrayHunt:
    """Looks at one state directory. One thread calls it."""

    def __init__(self, state: str, role: str) -> None:
        """`state`: the directory, as `state_identity` has it."""
        self._state = state
        self._role = role
        self._told: dict[str, StrayProcess] = {}
        self._owners: dict[int, Owner] = {}
        """By session: whom its processes belong to, also once they show no mark."""

    def find(self, serving: Sequence[Serving]) -> list[StrayProcess]:
        """All that are there now."""
        processes = list_processes()
        self._owners = self._sessions(processes, serving)
        owners = {each.pid: owner for each in processes if (owner := self._owner_of(each))}
        alive = {each.owner for each in serving}
        remains = [each for each in processes if each.pid in owners]
        remains = [each for each in remains if owners[each.pid] not in alive]
        ports = ports_by_socket()
        found = [_describe(each, StrayKind.REMAINS, owners[each.pid], ports) for each in remains]
        found += _intruders(processes, owners, serving, ports)
        found = _with_device_memory(found) if found else []
        self._told = {each.stray_id: each for each in found}
        return found

    def end(self, stray_id: str) -> None:
        """End what was told at the last look; of anything else nothing is touched.

        Raises ValueError for an intruder, PermissionError where it is another user's by now.
        """
        stray = self._told.get(stray_id)
        if stray is None:
            return
        if stray.kind is not StrayKind.REMAINS or stray.pid is None:
            raise ValueError(
                f"{stray_id} is no process of ours: whoever started it may end it; the replica "
                f"whose port it has is replaced on another one"
            )
        _, _, start_ticks = stray_id.rpartition(".")
        end_process(stray.pid, int(start_ticks))

    def _owner_of(self, process: LiveProcess) -> Owner | None:
        mark = process.mark
        if mark is None:
            return self._owners.get(process.session)
        return _owner(mark) if self._is_ours(mark) else None

    def _is_ours(self, mark: ProcessMark) -> bool:
        return (mark.state, mark.role) == (self._state, self._role)

    def _sessions(
        self, processes: Iterable[LiveProcess], serving: Iterable[Serving]
    ) -> dict[int, Owner]:
        """The kernel gives no session's number away while a process is in it."""
        known = self._owners | {each.pid: each.owner for each in serving}
        for each in processes:
            if each.mark is not None and self._is_ours(each.mark):
                known[each.session] = _owner(each.mark)
        there = {each.session for each in processes}
        return {session: owner for session, owner in known.items() if session in there}


def _with_device_memory(strays: Sequence[StrayProcess]) -> list[StrayProcess]:
    """What each has of devices' memory, where something tells."""
    by_pid = device_bytes_by_pid()
    if by_pid is None:
        return list(strays)
    return [
        each if each.pid is None else replace(each, device_bytes=by_pid.get(each.pid, 0))
        for each in strays
    ]


def _intruders(
    processes: Sequence[LiveProcess],
    owners: Mapping[int, Owner],
    serving: Sequence[Serving],
    ports: Mapping[str, int],
) -> list[StrayProcess]:
    found = []
    for each in serving:
        listening = {socket for socket, port in ports.items() if port == each.port}
        if len(listening) == 0:
            continue
        family = [p.pid for p in processes if owners.get(p.pid) == each.owner]
        foreign = listening.difference(*(sockets_of(pid) for pid in family))
        if foreign:
            found += _holders(processes, foreign, each, ports)
    return found


def _holders(
    processes: Sequence[LiveProcess],
    sockets: set[str],
    replica: Serving,
    ports: Mapping[str, int],
) -> list[StrayProcess]:
    """Whoever has them, told with the replica's port alone."""
    its_port = {socket: ports[socket] for socket in sockets}
    holders = [each for each in processes if sockets_of(each.pid) & sockets]
    if holders:
        return [_describe(each, StrayKind.INTRUDER, replica.owner, its_port) for each in holders]
    return [
        StrayProcess(
            stray_id=f"{StrayKind.INTRUDER}-unseen.{replica.port}",
            kind=StrayKind.INTRUDER,
            pid=None,
            replica_id=replica.owner.replica_id,
            fencing_token=replica.owner.fencing_token,
            command="",
            ports=() if replica.port is None else (replica.port,),
            resident_bytes=None,
            device_bytes=None,
        )
    ]


def _describe(
    process: LiveProcess, kind: StrayKind, owner: Owner, ports: Mapping[str, int]
) -> StrayProcess:
    own = sorted({ports[each] for each in sockets_of(process.pid) if each in ports})
    return StrayProcess(
        stray_id=f"{kind}-{process.pid}.{process.start_ticks}",
        kind=kind,
        pid=process.pid,
        replica_id=owner.replica_id,
        fencing_token=owner.fencing_token,
        command=process.command,
        ports=tuple(own),
        resident_bytes=process.resident_bytes,
        device_bytes=None,
    )


def _owner(mark: ProcessMark) -> Owner:
    return Owner(mark.name, mark.fencing_token)
