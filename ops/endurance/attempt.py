"""One attempt of a client to have something answered, as the client itself knows it.

The client names each attempt by a trace id of its own, so that it is found in the records even
where no answer ever told the client a request id.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from ops.endurance.documents import MODEL


class Kind(StrEnum):
    """What the client does."""

    STREAM = "stream"
    WHOLE = "whole"
    HURRIED = "hurried"
    BATCH = "batch"
    INVALID = "invalid"
    LEAVES_IN_HEAD = "leaves_in_head"
    LEAVES_IN_BODY = "leaves_in_body"
    LEAVES_WAITING = "leaves_waiting"
    LEAVES_IN_STREAM = "leaves_in_stream"
    READS_SLOWLY = "reads_slowly"
    SENDS_SLOWLY = "sends_slowly"
    LEAVES_READING_SLOWLY = "leaves_reading_slowly"
    LEAVES_AFTER_END = "leaves_after_end"
    """With the whole answer, from a connection that could have stayed."""
    LEAVES_TWICE = "leaves_twice"
    """Ends its sending side first, and then everything."""


class End(StrEnum):
    """How it went, as far as the client can tell."""

    NO_ANSWER = "no_answer"
    """The connection ended before a byte of an answer."""
    CUT = "cut"
    """The connection ended within the answer."""
    LEFT = "left"
    """The client hung up, as it meant to."""
    ERROR_EVENT = "error_event"
    """A stream that ended with an error."""
    WHOLE = "whole"


_SHARES = {
    Kind.STREAM: 26,
    Kind.WHOLE: 16,
    Kind.HURRIED: 8,
    Kind.BATCH: 8,
    Kind.INVALID: 16,
    Kind.LEAVES_IN_HEAD: 1,
    Kind.LEAVES_IN_BODY: 3,
    Kind.LEAVES_WAITING: 9,
    Kind.LEAVES_IN_STREAM: 9,
    Kind.READS_SLOWLY: 2,
    Kind.SENDS_SLOWLY: 2,
}
_INVALID: tuple[bytes | dict[str, Any], ...] = (
    b"",
    b"{",
    b"\xff\xfe{}",
    b"[1, 2]",
    {"model": "nobody", "prompt": "hello"},
    {"model": MODEL},
    {"model": MODEL, "prompt": ""},
    {"model": MODEL, "prompt": "hello", "max_tokens": -1},
    {"model": MODEL, "prompt": "hello", "max_tokens": 100_000},
    {"model": MODEL, "prompt": "hello", "temperature": "hot"},
    {"model": MODEL, "prompt": "x" * 2000},
    {"model": MODEL, "prompt": "hello", "no_such_field": 1},
)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """Written by one client, read by the audit. Times in nanoseconds since the epoch."""

    number: int
    kind: Kind
    trace_id: str
    tenant: str
    body: bytes
    is_stream: bool
    leaves_after_seconds: float
    """For one that leaves: how long it stays after what it waits for."""
    leaves_by_reset: bool
    path: str = "/v1/completions"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Beside those that each has."""
    num_chunks: int = 1
    """Of a stream, read before one leaves that leaves in it."""
    began_at_unix_ns: int = 0
    ended_at_unix_ns: int = 0
    num_refusals: int = 0
    """Connections refused before one was taken."""
    has_sent_all: bool = False
    status: int | None = None
    request_id: str | None = None
    num_output_tokens: int | None = None
    """As the answer's usage says."""
    end: End = End.NO_ANSWER

    @property
    def has_left(self) -> bool:
        """It hung up by itself, before the end of its answer or right after it."""
        return self.end is End.LEFT or (
            self.kind is Kind.LEAVES_AFTER_END and self.end is End.WHOLE and self.status == 200
        )


def plan_attempt(seed: int, number: int) -> Attempt:
    """What attempt `number` is; the same for the same seed."""
    random = Random(f"{seed}/{number}")
    kind = random.choices(tuple(_SHARES), tuple(_SHARES.values()))[0]
    tenant = {Kind.HURRIED: "hurried", Kind.BATCH: "batch"}.get(kind, "default")
    is_stream = kind not in (Kind.WHOLE, Kind.INVALID) and random.random() < 0.8
    is_stream |= kind in (Kind.STREAM, Kind.LEAVES_IN_STREAM, Kind.READS_SLOWLY)
    return Attempt(
        number=number,
        kind=kind,
        trace_id=f"{random.getrandbits(128):032x}",
        tenant="nobody" if kind is Kind.INVALID and random.random() < 0.1 else tenant,
        body=_body(random, kind, is_stream),
        is_stream=is_stream,
        leaves_after_seconds=random.choice((0.0, 0.0, 0.002, 0.01, 0.05)),
        leaves_by_reset=random.random() < 0.5,
    )


def _body(random: Random, kind: Kind, is_stream: bool) -> bytes:
    if kind is Kind.INVALID:
        chosen = random.choice(_INVALID)
        return chosen if isinstance(chosen, bytes) else json.dumps(chosen).encode()
    is_long = kind in (Kind.LEAVES_IN_STREAM, Kind.LEAVES_WAITING, Kind.READS_SLOWLY)
    # Some prompts begin alike, so that blocks are shared and shared ones are let go of.
    start = random.choice(("Once upon a time ", "The quick brown fox ", ""))
    words = " ".join(random.choice(("sea", "ship", "fog")) for _ in range(random.randint(1, 24)))
    body: dict[str, Any] = {
        "model": MODEL,
        "prompt": start + words,
        "max_tokens": random.randint(24, 96) if is_long else random.randint(2, 8),
        "temperature": random.choice((0, 1)),
    }
    if is_stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if is_long:
        body["ignore_eos"] = True
    return json.dumps(body).encode()
