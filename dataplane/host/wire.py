"""What gateway and replica say to each other, and how it is framed.

One TCP connection for each gateway and replica, many requests on it. Every frame is a
32-bit big-endian length and one message in MessagePack::

    gateway                              replica
       | ---- Greeting -------------------> |    who calls, which protocol
       | <--- Hello ----------------------- |    which replica this is, what it can do
       | ---- Submit, Cancel, Pause ------> |
       | ---- StatsQuery, PrefixQuery ----> |
       | <--- EventBatch ------------------ |    one batch for each half step of the engine
       | <--- StatsReply, PrefixReply ----- |

A frame that is too large, cannot be decoded, or is not for the side that got it closes the
connection: after it nothing on the stream can be trusted.
"""

import asyncio
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from dataplane.engine import EngineCapabilities, EngineEvent, EngineRequest, EngineStats
from dataplane.lifecycle import Disposition
from dataplane.prefix_report import PrefixReport

PROTOCOL_VERSION = 2
MAX_FRAME_BYTES = 8 * 2**20
"""Above a prompt of a million token ids, below what would hurt either side."""

_LENGTH = struct.Struct(">I")
Message = TypeVar("Message")


class Greeting(msgspec.Struct, frozen=True, tag="greeting"):
    """First frame of a gateway."""

    protocol_version: int
    client: str
    """Who calls, for the log."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First frame of a replica."""

    protocol_version: int
    replica_id: str
    capabilities: EngineCapabilities
    fencing_token: int = 0
    """Of the spec that it was started from; 0 also from one of a release that had none."""


class Submit(msgspec.Struct, frozen=True, tag="submit"):
    """Start an attempt; its events follow in batches, RELEASED last."""

    request: EngineRequest


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """End a request; of no effect when it ended already."""

    request_id: str
    disposition: Disposition


class Pause(msgspec.Struct, frozen=True, tag="pause"):
    """Give a request no steps until it is told to go on; of no effect when it ended already. What
    is under way still comes."""

    request_id: str
    is_paused: bool
    """False: go on."""


class StatsQuery(msgspec.Struct, frozen=True, tag="stats"):
    """Ask for a snapshot of the engine."""

    query_id: int


class PrefixQuery(msgspec.Struct, frozen=True, tag="prefixes"):
    """Ask what of prompts the engine can find again, since a cursor; None: all of it."""

    query_id: int
    cursor: str | None


class PrefixReply(msgspec.Struct, frozen=True, tag="prefixes_reply"):
    """None: the engine does not tell."""

    query_id: int
    report: PrefixReport | None


class StatsReply(msgspec.Struct, frozen=True, tag="stats_reply"):
    """The snapshot, with its age."""

    query_id: int
    stats: EngineStats


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """One event of one request of this connection."""

    request_id: str
    event: EngineEvent


class EventBatch(msgspec.Struct, frozen=True, tag="events"):
    """What happened in one half of an engine step, in order."""

    events: tuple[RequestEvent, ...]


ClientMessage = Greeting | Submit | Cancel | Pause | StatsQuery | PrefixQuery
ReplicaMessage = Hello | EventBatch | StatsReply | PrefixReply

_ENCODER = msgspec.msgpack.Encoder()
_CLIENT_DECODER = msgspec.msgpack.Decoder(ClientMessage)
_REPLICA_DECODER = msgspec.msgpack.Decoder(ReplicaMessage)


class WireError(Exception):
    """The other side does not speak this protocol; the connection must be closed."""


class FrameTooLargeError(ValueError):
    """A message of our own that the other side would refuse."""

    def __init__(self, num_bytes: int) -> None:
        super().__init__(f"a frame of {num_bytes} bytes is above the limit of {MAX_FRAME_BYTES}")
        self.num_bytes = num_bytes


def encode_frame(message: ClientMessage | ReplicaMessage) -> bytes:
    """The message with its length before it. Raises FrameTooLargeError."""
    body = _ENCODER.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLargeError(len(body))
    return _LENGTH.pack(len(body)) + body


async def read_client_message(reader: asyncio.StreamReader) -> ClientMessage | None:
    """The next message of a gateway, or None at the end. Raises WireError and OSError."""
    frame = await _read_frame(reader)
    return None if frame is None else _decode(_CLIENT_DECODER, frame)


async def read_replica_message(reader: asyncio.StreamReader) -> ReplicaMessage | None:
    """The next message of a replica, or None at the end. Raises WireError and OSError."""
    frame = await _read_frame(reader)
    return None if frame is None else _decode(_REPLICA_DECODER, frame)


class ReplicaMessages:
    """Puts what comes of a replica in pieces together to messages, without waiting for it."""

    def __init__(self) -> None:
        self._begun = b""

    @property
    def is_inside(self) -> bool:
        """Of the next message, a part is here."""
        return bool(self._begun)

    def feed(self, data: bytes) -> Iterator[ReplicaMessage]:
        """The messages that `data` completes; to be taken before more is fed. Raises WireError."""
        if self._begun:
            data = self._begun + data
        view, begin = memoryview(data), 0
        while len(data) - begin >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(data, begin)
            _check_length(length)
            end = begin + _LENGTH.size + length
            if end > len(data):
                break
            message = _decode(_REPLICA_DECODER, view[begin + _LENGTH.size : end])
            begin = end
            yield message
        self._begun = data[begin:]


def _check_length(num_bytes: int) -> None:
    if num_bytes > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {num_bytes} bytes is above the limit of {MAX_FRAME_BYTES}")


async def _read_frame(reader: asyncio.StreamReader) -> bytes | None:
    is_inside = False
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        _check_length(length)
        is_inside = True
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        if is_inside or error.partial:
            raise WireError("the connection ended inside a frame") from error
        return None


def _decode(decoder: msgspec.msgpack.Decoder[Message], frame: bytes | memoryview) -> Message:
    try:
        return decoder.decode(frame)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise WireError(f"a malformed frame: {error}") from error
