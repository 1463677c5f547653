"""How a gateway process hands its port to the one that takes its place.

Whoever serves keeps a door, a UNIX socket in the state directory. A successor knocks and is
given the very same listening socket, so that no connection that waits in it is ever refused.
Only when the successor serves does the old one let go; a successor that dies before costs
nothing. The slots that the old one holds when it gives the socket are not given by the new one;
after that the old one keeps telling what it still holds until it ends.

    successor --Claim------------> predecessor
              <--Grant + socket--- what it enforces, reaches and holds
              --Serving----------> stops accepting, drains
              <--Holding ...------ which slots of which replica it still has
              <--(end of file)---- it has ended, however it ended

One JSON object a line. The door belongs to the newest process: its socket file replaces the
predecessor's.
"""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

DOOR_FILE = "handover.sock"

_KNOCK_SECONDS = 15.0
_HOLDING_SECONDS = 0.1
_MAX_LINE_BYTES = 64 * 2**10

_log = structlog.get_logger(__name__)


class Claim(msgspec.Struct, frozen=True):
    """A successor asks for the port."""

    gateway_id: str
    pid: int


class Grant(msgspec.Struct, frozen=True):
    """Comes with the listening socket; or, with a refusal, without it."""

    gateway_id: str
    pid: int
    snapshot_version: int = 0
    """What it enforces: a successor serves when it enforces this or a newer one."""
    replica_ids: tuple[str, ...] = ()
    """Those it is connected to: a successor waits until it is as well."""
    num_held_by_replica: Mapping[str, int] = msgspec.field(default_factory=dict)
    """Slots that it, and those before it, hold: a successor does not give them, from its first
    request on. As of now; each Holding replaces it."""
    is_listener_kept: bool = False
    """A service manager keeps the socket open, whoever ends."""
    refusal: str | None = None


class Serving(msgspec.Struct, frozen=True):
    """The successor answers on the port: the predecessor may let go."""

    gateway_id: str


class Holding(msgspec.Struct, frozen=True):
    """Slots that the predecessor, and those before it, still hold."""

    num_by_replica: Mapping[str, int]


class TakeoverError(Exception):
    """The port cannot be taken over; the message says why and what to do."""


_Message = TypeVar("_Message", Claim, Grant, Serving, Holding)


@dataclass(slots=True, eq=False)
class Predecessor:
    """The process whose place is taken, seen from its successor."""

    grant: Grant
    listener: socket.socket
    """The socket that it listens on, shared from now on."""
    _connection: socket.socket

    def tell_serving(self, gateway_id: str) -> None:
        """The successor answers: from now on the predecessor lets go.

        Raises OSError when it is gone; then nobody has to let go.
        """
        self._connection.sendall(_line(Serving(gateway_id)))

    async def watch(self, note: Callable[[Mapping[str, int]], None]) -> None:
        """Hand each word on what it holds to `note`; returns with nothing held when it ended."""
        self._connection.setblocking(False)
        reader, writer = await asyncio.open_unix_connection(
            sock=self._connection, limit=_MAX_LINE_BYTES
        )
        try:
            while (holding := await _read(reader, Holding)) is not None:
                note(holding.num_by_replica)
        finally:
            note({})
            writer.transport.abort()

    def close(self) -> None:
        """Hang up: a predecessor that was not told that this process serves, serves on."""
        self._connection.close()


def knock(state_dir: Path, gateway_id: str) -> Predecessor | None:
    """Ask the gateway that serves from `state_dir` for its port; None when none serves.

    Blocks for a few seconds at most. Raises TakeoverError when it does not give it.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_KNOCK_SECONDS)
    try:
        with _short_path(state_dir, DOOR_FILE) as path:
            connection.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    try:
        connection.sendall(_line(Claim(gateway_id, os.getpid())))
        grant, listener = _receive_grant(connection)
    except (OSError, msgspec.MsgspecError) as error:
        connection.close()
        raise TakeoverError(
            f"the gateway that serves from {state_dir} does not hand its port over "
            f"({error or type(error).__name__}): end it, then start this one"
        ) from error
    except TakeoverError:
        connection.close()
        raise
    return Predecessor(grant, listener, connection)


def _receive_grant(connection: socket.socket) -> tuple[Grant, socket.socket]:
    """The grant and its socket arrive together: ancillary data comes with the first byte."""
    data, fds, _, _ = socket.recv_fds(connection, _MAX_LINE_BYTES, 1)
    sockets = [socket.socket(fileno=fd) for fd in fds]
    try:
        while not data.endswith(b"\n"):
            more = connection.recv(_MAX_LINE_BYTES)
            if not more:
                raise TakeoverError("the gateway ended while it handed its port over: try again")
            data += more
        grant = msgspec.json.decode(data, type=Grant)
        if grant.refusal is not None or not sockets:
            raise TakeoverError(grant.refusal or "the gateway handed no socket over")
    except BaseException:
        for each in sockets:
            each.close()
        raise
    sockets[0].setblocking(False)
    return grant, sockets[0]


class Door:
    """Where a successor knocks. One event loop owns it.

    `listener` is the door's own handle on the socket; it is closed when the port is handed over.
    `describe` tells what a successor must reach, `let_go` is called once when one serves, and
    `holding` counts the slots that are still held.
    """

    def __init__(
        self,
        state_dir: Path,
        listener: socket.socket,
        describe: Callable[[], Grant],
        let_go: Callable[[], None],
        holding: Callable[[], Mapping[str, int]],
    ) -> None:
        self._path = state_dir / DOOR_FILE
        self._listener = listener
        self._describe = describe
        self._let_go = let_go
        self._holding = holding
        self._successor: Claim | None = None
        self._server: asyncio.Server | None = None
        self._inode: int | None = None
        self._talks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen for a successor, in the place of the predecessor's door."""
        scratch = f".{DOOR_FILE}.{os.getpid()}"
        door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with _short_path(self._path.parent, scratch) as path:
            self._path.with_name(scratch).unlink(missing_ok=True)
            door.bind(path)
        scratch_path = self._path.with_name(scratch)
        scratch_path.chmod(0o600)
        self._inode = scratch_path.stat().st_ino
        self._server = await asyncio.start_unix_server(self._talk, sock=door, limit=_MAX_LINE_BYTES)
        scratch_path.replace(self._path)

    async def close(self) -> None:
        """Nobody may knock any more; who talks is hung up on, which says that we ended."""
        if self._server is None:
            return
        self._server.close()
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:  # else it is the successor's
                self._path.unlink()
        for talk in self._talks:
            talk.cancel()
        if self._talks:
            await asyncio.wait(self._talks)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # start_unix_server runs this in a task of its own
        self._talks.add(task)
        task.add_done_callback(self._talks.discard)
        try:
            await self._hand_over(reader, writer)
        except (OSError, msgspec.MsgspecError, TimeoutError) as error:
            _log.warning("a successor was given up", why=str(error) or type(error).__name__)
        except asyncio.CancelledError:
            return  # the end of this process; streams would log a task that ends as cancelled
        finally:
            writer.transport.abort()

    async def _hand_over(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_KNOCK_SECONDS):
            claim = await _read(reader, Claim)
        if claim is None:
            return
        if self._successor is not None:
            writer.write(_line(self._refuse(self._successor)))
            await writer.drain()
            return
        self._successor = claim
        is_serving = False
        try:
            _log.info("a successor asks for the port", successor=claim.gateway_id, pid=claim.pid)
            self._send_grant(writer)
            is_serving = await _read(reader, Serving) is not None
        finally:
            if not is_serving:
                self._successor = None
                _log.warning("the successor ended before it served", successor=claim.gateway_id)
        if is_serving:
            self._listener.close()
            self._let_go()
            await self._tell_holding(writer)

    def _send_grant(self, writer: asyncio.StreamWriter) -> None:
        # The transport's own socket sends no ancillary data; nothing waits in it yet.
        with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as beside:
            socket.send_fds(beside, [_line(self._describe())], [self._listener.fileno()])

    def _refuse(self, other: Claim) -> Grant:
        return Grant(
            gateway_id=self._describe().gateway_id,
            pid=os.getpid(),
            refusal=f"{other.gateway_id} (pid {other.pid}) is already taking this port over: "
            f"wait until it serves, or end it",
        )

    async def _tell_holding(self, writer: asyncio.StreamWriter) -> None:
        """Until the successor is gone, or this task is cancelled because we end."""
        told: Mapping[str, int] | None = None
        while not writer.transport.is_closing():
            held = dict(self._holding())
            if held != told:
                writer.write(_line(Holding(held)))
                await writer.drain()
                told = held
            await asyncio.sleep(_HOLDING_SECONDS)


async def _read(reader: asyncio.StreamReader, kind: type[_Message]) -> _Message | None:
    """The next message; None when the other side has ended."""
    try:
        line = await reader.readline()
    except ConnectionError:
        return None
    except ValueError as error:  # longer than the reader's limit
        raise msgspec.DecodeError(str(error)) from error
    return msgspec.json.decode(line, type=kind) if line.endswith(b"\n") else None


def _line(message: Claim | Grant | Serving | Holding) -> bytes:
    return msgspec.json.encode(message) + b"\n"


@contextlib.contextmanager
def _short_path(directory: Path, name: str) -> Iterator[str]:
    """A path to `name` that fits a socket address, which holds only 107 bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)
