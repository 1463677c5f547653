"""Frames survive the trip, and what is no frame is refused."""

import asyncio
import struct

import pytest

from dataplane.engine import EngineEvent, EngineRequest, SamplingParams
from dataplane.host.wire import (
    MAX_FRAME_BYTES,
    Cancel,
    ClientMessage,
    EventBatch,
    FrameTooLargeError,
    Greeting,
    ReplicaMessage,
    ReplicaMessages,
    RequestEvent,
    StatsQuery,
    Submit,
    WireError,
    encode_frame,
    read_client_message,
    read_replica_message,
)
from dataplane.lifecycle import Disposition, EventKind
from tests.dataplane.host.served_engine import run

REQUEST = EngineRequest(
    request_id="r1",
    attempt=1,
    endpoint="/v1/completions",
    sampling=SamplingParams(max_output_tokens=3, stop=("\n",), seed=7),
    prompt_token_ids=(1, 2, 3),
    isolation_key="gold",
)


def _reader(data: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return reader


def test_messages_of_a_gateway_survive_the_trip() -> None:
    messages: list[ClientMessage] = [
        Greeting(1, "gateway-0"),
        Submit(REQUEST),
        Cancel("r1", Disposition.DEADLINE),
        StatsQuery(9),
    ]

    async def scenario() -> None:
        reader = _reader(b"".join(map(encode_frame, messages)))
        assert [await read_client_message(reader) for _ in messages] == messages
        assert await read_client_message(reader) is None

    run(scenario())


def test_a_batch_of_events_survives_the_trip() -> None:
    event = EngineEvent(
        kind=EventKind.FINISHED,
        offset=0.5,
        text="é",
        disposition=Disposition.STOP,
        status_code=None,
    )
    batch: ReplicaMessage = EventBatch((RequestEvent("r1", event), RequestEvent("r2", event)))

    async def scenario() -> None:
        assert await read_replica_message(_reader(encode_frame(batch))) == batch

    run(scenario())


def test_messages_come_back_from_pieces_however_they_are_cut() -> None:
    batches = [
        EventBatch((RequestEvent(f"r{number}", EngineEvent(kind=EventKind.TOKENS)),) * number)
        for number in range(3)
    ]
    data = b"".join(map(encode_frame, batches))
    for size in (1, 3, 7, len(data) - 1, len(data)):
        messages = ReplicaMessages()
        told = [
            message
            for begin in range(0, len(data), size)
            for message in messages.feed(data[begin : begin + size])
        ]
        assert (told, messages.is_inside) == (batches, False)


def test_a_frame_above_the_limit_is_refused_before_it_is_there() -> None:
    messages = ReplicaMessages()
    with pytest.raises(WireError, match="above the limit"):
        list(messages.feed(struct.pack(">I", MAX_FRAME_BYTES + 1)))


def _framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (struct.pack(">I", MAX_FRAME_BYTES + 1), "above the limit"),
        (b"GET / HTTP/1.1\r\n\r\n", "above the limit"),
        (_framed(b"\xc1"), "malformed"),
        (_framed(b"\x80"), "malformed"),
        (encode_frame(Submit(REQUEST))[:-1], "inside a frame"),
        (b"\x00\x00", "inside a frame"),
        (encode_frame(EventBatch(())), "malformed"),
    ],
    ids=["too large", "http", "no msgpack", "no tag", "cut body", "cut length", "wrong side"],
)
def test_what_is_no_frame_for_a_replica_is_refused(data: bytes, says: str) -> None:
    async def scenario() -> None:
        with pytest.raises(WireError, match=says):
            await read_client_message(_reader(data))

    run(scenario())


def test_an_own_frame_that_the_other_side_would_refuse_is_not_sent() -> None:
    with pytest.raises(FrameTooLargeError, match="above the limit"):
        encode_frame(Greeting(1, "x" * MAX_FRAME_BYTES))
