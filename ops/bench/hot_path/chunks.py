"""What the stub engine says: the same words over either protocol, and a mark in each chunk.

A gateway may join chunks that wait for a client, so that events are not chunks. The mark is
counted instead: as many marks as a reader has seen, as many chunks it has been handed.
"""

import msgspec

MARK = b"~"
"""Once in each chunk, and nowhere else in an answer."""
TEXT = " word~"
END_OF_STREAM = b"data: [DONE]\n\n"
STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_PART = b"0\r\n\r\n"
"""Ends a body that is sent in parts."""
_MODEL = "stub"


def part(data: bytes) -> bytes:
    """One part of a chunked HTTP body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    document = {
        "id": "chatcmpl-stub",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": _MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }
    return b"data: " + msgspec.json.encode(document) + b"\n\n"


_OPENING = _event({"role": "assistant", "content": ""})
_CONTENT = _event({"content": TEXT})
FIRST_WRITE = STREAM_HEAD + part(_OPENING + _CONTENT)
WRITE = part(_CONTENT)
ENDING = part(_event({}, "length") + END_OF_STREAM) + LAST_PART
"""Follows the last chunk in the same write."""
