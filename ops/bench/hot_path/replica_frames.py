"""Frames of the replicas' protocol, encoded as far as they can be before they are needed.

All token events of a request are alike but for their time. They are encoded once with a time
that stands for any (eight bytes that can be found again), and cut there; what is left to do for
a chunk is to join three strings.
"""

import struct

from dataplane.engine import EngineEvent, EngineUse
from dataplane.host.wire import EventBatch, RequestEvent, encode_frame
from dataplane.lifecycle import Disposition, EventKind
from ops.bench.hot_path.chunks import TEXT

_TIME = struct.Struct(">d")
_ANY_TIME = b"OFFSETAT"
_ANY_OFFSET: float = _TIME.unpack(_ANY_TIME)[0]
_LENGTH = struct.Struct(">I")
_ARRAY = struct.Struct(">BH")
_ARRAY_16 = 0xDC
_TOKEN_ID = 65
_EMPTY_BATCH = encode_frame(EventBatch(()))[_LENGTH.size :]
_BATCH_HEAD = _EMPTY_BATCH.removesuffix(b"\x90")  # an array of none


class ReplicaFrames:
    """The events of one request, each as it stands in a batch."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._token = self._cut(
            EngineEvent(
                kind=EventKind.TOKENS,
                offset=_ANY_OFFSET,
                num_tokens=1,
                token_ids=(_TOKEN_ID,),
                text=TEXT,
            )
        )

    def first(self, num_prompt_tokens: int, offset: float) -> list[bytes]:
        """Up to the first token."""
        prefill = EngineEvent(
            kind=EventKind.PREFILL_CHUNK,
            offset=offset,
            num_tokens=num_prompt_tokens,
            num_cached_tokens=0,
        )
        token = EngineEvent(
            kind=EventKind.FIRST_TOKEN, offset=offset, token_ids=(_TOKEN_ID,), text=TEXT
        )
        scheduled = EngineEvent(kind=EventKind.SCHEDULED, offset=offset)
        return [self._encode(event) for event in (scheduled, prefill, token)]

    def next(self, offset: float) -> bytes:
        """One more token."""
        before, after = self._token
        return before + _TIME.pack(offset) + after

    def turn(self, kind: EventKind, offset: float) -> bytes:
        """It is paused, or goes on."""
        return self._encode(EngineEvent(kind=kind, offset=offset))

    def end(
        self, disposition: Disposition, offset: float, num_prompt_tokens: int, num_tokens: int
    ) -> list[bytes]:
        """Finished and released."""
        finished = EngineEvent(
            kind=EventKind.FINISHED,
            offset=offset,
            text="",
            disposition=disposition,
            num_prompt_tokens=num_prompt_tokens,
            num_output_tokens=num_tokens,
        )
        released = EngineEvent(
            kind=EventKind.RELEASED, offset=offset, used=EngineUse(engine_seconds=offset)
        )
        return [self._encode(event) for event in (finished, released)]

    def _encode(self, event: EngineEvent) -> bytes:
        """One event as a batch of one holds it."""
        frame = encode_frame(EventBatch((RequestEvent(self._request_id, event),)))
        return frame[_LENGTH.size + len(_BATCH_HEAD) + 1 :]

    def _cut(self, event: EngineEvent) -> tuple[bytes, bytes]:
        before, mark, after = self._encode(event).partition(_ANY_TIME)
        assert mark
        assert _ANY_TIME not in after
        return before, after


def join_batch(events: list[bytes]) -> bytes:
    """The frame of a batch."""
    body = b"".join((_BATCH_HEAD, _ARRAY.pack(_ARRAY_16, len(events)), *events))
    return _LENGTH.pack(len(body)) + body
