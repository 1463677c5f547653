"""The stub's door for gateways: they take it for a native replica.

As a real engine does, it puts what is due at one moment into one frame for each gateway.
"""

import asyncio
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from dataplane.engine import EngineCapabilities, EngineStats
from dataplane.host.wire import (
    PROTOCOL_VERSION,
    Cancel,
    ClientMessage,
    Greeting,
    Hello,
    Pause,
    ReplicaMessage,
    StatsQuery,
    StatsReply,
    Submit,
    encode_frame,
)
from dataplane.lifecycle import Disposition, EventKind, Observability
from ops.bench.hot_path.paced_streams import PacedStream, PacedStreams
from ops.bench.hot_path.replica_frames import ReplicaFrames, join_batch

_LENGTH = struct.Struct(">I")
_DECODER = msgspec.msgpack.Decoder(ClientMessage)
_MAX_MODEL_LEN = 2**17
_MAX_EVENTS = 2**16 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTerms:
    """How the stub behaves as a replica."""

    replica_id: str
    num_slots: int
    num_chunks: int
    prefill_seconds_per_token: float


@dataclass(slots=True, eq=False)
class _Asked:
    """One submission."""

    request_id: str
    num_prompt_tokens: int
    frames: ReplicaFrames


class ReplicaDoor(asyncio.Protocol):
    """One gateway's connection."""

    def __init__(self, terms: ReplicaTerms, streams: PacedStreams) -> None:
        self._terms = terms
        self._streams = streams
        self._by_id: dict[str, PacedStream] = {}
        self._received = bytearray()
        self._events: list[bytes] = []

    # asyncio hands BaseTransport to every protocol, and uvloop's own are no subclass of it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for stream in list(self._by_id.values()):
            self._streams.end_early(stream)
        self._by_id.clear()

    def data_received(self, data: bytes) -> None:
        self._received += data
        for frame in _take_frames(self._received):
            self._take(_DECODER.decode(frame))

    def put_first(self, stream: PacedStream, now: float) -> None:
        asked = _asked(stream)
        self._events += asked.frames.first(asked.num_prompt_tokens, now - stream.received_at)

    def put_next(self, stream: PacedStream, now: float) -> None:
        self._events.append(_asked(stream).frames.next(now - stream.received_at))

    def put_end(self, stream: PacedStream, now: float) -> None:
        self._end(stream, Disposition.LENGTH, now - stream.received_at)

    def flush(self) -> None:
        events, self._events = self._events, []
        for begin in range(0, len(events), _MAX_EVENTS):
            self._transport.write(join_batch(events[begin : begin + _MAX_EVENTS]))

    def _take(self, message: ClientMessage) -> None:
        match message:
            case Greeting():
                self._say(Hello(PROTOCOL_VERSION, self._terms.replica_id, self._capabilities()))
            case Submit(request):
                self._submit(
                    request.request_id,
                    len(request.prompt_token_ids),
                    request.sampling.max_output_tokens,
                )
            case Cancel(request_id, disposition):
                self._cancel(request_id, disposition)
            case Pause(request_id, is_paused):
                self._pause(request_id, is_paused)
            case StatsQuery(query_id):
                self._say(StatsReply(query_id, self._stats()))

    def _submit(self, request_id: str, num_prompt_tokens: int, max_tokens: int) -> None:
        stream = PacedStream(
            key=_Asked(request_id, num_prompt_tokens, ReplicaFrames(request_id)),
            door=self,
            num_chunks=min(max_tokens, self._terms.num_chunks),
            prefill_seconds=num_prompt_tokens * self._terms.prefill_seconds_per_token,
        )
        self._by_id[request_id] = stream
        self._streams.begin(stream)

    def _cancel(self, request_id: str, disposition: Disposition) -> None:
        stream = self._by_id.get(request_id)
        if stream is not None:
            self._streams.end_early(stream)
            self._end(stream, disposition, 0.0)
            self.flush()

    def _pause(self, request_id: str, is_paused: bool) -> None:
        stream = self._by_id.get(request_id)
        if stream is None:
            return
        has_turned = self._streams.pause(stream) if is_paused else self._streams.go_on(stream)
        if has_turned:
            kind = EventKind.PAUSED if is_paused else EventKind.RESUMED
            self._events.append(_asked(stream).frames.turn(kind, self._streams.age_of(stream)))
            self.flush()

    def _end(self, stream: PacedStream, disposition: Disposition, offset: float) -> None:
        asked = _asked(stream)
        del self._by_id[asked.request_id]
        self._events += asked.frames.end(
            disposition, offset, asked.num_prompt_tokens, stream.num_sent
        )

    def _say(self, message: ReplicaMessage) -> None:
        self._transport.write(encode_frame(message))

    def _stats(self) -> EngineStats:
        return EngineStats(
            age_seconds=0.0,
            max_num_seqs=self._terms.num_slots,
            num_running=self._streams.num_running,
            num_waiting=self._streams.num_waiting,
            num_unreleased=0,
        )

    def _capabilities(self) -> EngineCapabilities:
        return EngineCapabilities(
            engine="paged",
            version="stub",
            takes_token_ids=True,
            max_model_len=_MAX_MODEL_LEN,
            max_num_seqs=self._terms.num_slots,
            prefill=Observability.OBSERVED,
            decode=Observability.OBSERVED,
            cleanup=Observability.OBSERVED,
            token_counts=Observability.OBSERVED,
            cached_tokens=Observability.OBSERVED,
        )


def replica_doors(terms: ReplicaTerms, streams: PacedStreams) -> Callable[[], ReplicaDoor]:
    """What makes a door for each gateway that connects."""
    return lambda: ReplicaDoor(terms, streams)


def _asked(stream: PacedStream) -> _Asked:
    assert isinstance(stream.key, _Asked)
    return stream.key


def _take_frames(received: bytearray) -> Iterator[bytes]:
    """Every whole frame, without its length; what is left is the beginning of the next one."""
    begin = 0
    while len(received) >= begin + _LENGTH.size:
        (length,) = _LENGTH.unpack_from(received, begin)
        end = begin + _LENGTH.size + length
        if len(received) < end:
            break
        yield bytes(received[begin + _LENGTH.size : end])
        begin = end
    del received[:begin]
