"""One HTTP connection of the load client: a bare asyncio protocol, as cheap as Python allows.

Chunks are counted by their marks, and dated by when their bytes were read. A chunk's delay is
against the pace: chunk `i` is due `i` paces after the stream's beginning, and the beginning is
where the stream's most punctual chunk puts it. So what every chunk is late by, as the first one
is, is no delay of chunks: it is the time to the first one, which is told apart.
"""

import asyncio
from collections.abc import Callable, Sequence

import httptools

from dataplane.clock import MonotonicClock
from ops.bench.hot_path.chunks import MARK
from ops.bench.hot_path.stream_call import End, StreamCall

_END_MARK = b"[DONE]"


class ClientConnection(asyncio.Protocol):
    """Carries one call at a time; `on_idle` is told when it can take another."""

    def __init__(
        self,
        clock: MonotonicClock,
        pace_seconds: float,
        put_delays: Callable[[Sequence[float]], object],
        on_idle: Callable[["ClientConnection"], None],
        on_ended: Callable[[StreamCall], None],
        on_lost: Callable[["ClientConnection"], None],
    ) -> None:
        """`put_delays` is handed the delays of a stream's chunks in seconds, once it has ended."""
        self._clock = clock
        self._pace_seconds = pace_seconds
        self._put_delays = put_delays
        self._on_idle = on_idle
        self._on_ended = on_ended
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._call: StreamCall | None = None
        self._tail = b""
        self._lateness: list[float] = []
        self._pause_seconds = 0.0
        self.is_lost = False

    # asyncio hands BaseTransport to every protocol, and uvloop's own are no subclass of it.
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        transport.set_write_buffer_limits(high=0)  # resume_writing: the kernel has it all
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._on_lost(self)
        if self._call is not None:
            self._finish(End.CUT)

    def read_slowly(self, pause_seconds: float) -> None:
        """From now on pause after each read. Chunks that come late by that are no server's doing,
        and their delays are not told."""
        self._pause_seconds = pause_seconds
        self._put_delays = _forget

    def send(self, call: StreamCall) -> None:
        """Send a call's request; the connection carries no other until that one has ended."""
        self._call, self._tail, self._lateness = call, b"", []
        call.sent_at = self._clock()
        self._transport.write(call.payload)
        if not self._transport.get_write_buffer_size():
            call.body_sent_at = self._clock()

    def close(self) -> None:
        """Hang up."""
        self._transport.abort()

    def resume_writing(self) -> None:
        if self._call is not None and self._call.body_sent_at is None:
            self._call.body_sent_at = self._clock()

    def data_received(self, data: bytes) -> None:
        call = self._call
        if call is not None and call.first_byte_at is None:
            call.first_byte_at = self._clock()
            if call.body_sent_at is None:  # answered before it was read
                call.body_sent_at = call.first_byte_at
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.abort()
        if self._pause_seconds and not self.is_lost:
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(self._pause_seconds, self._read_on)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._call is not None:
            self._call.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._call is not None:
            self._call.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        call = self._call
        if call is None:
            return
        if call.status != 200:
            call.body += body
            return
        num_new = body.count(MARK)
        if num_new:
            self._note_chunks(call, num_new)
        self._tail = (self._tail + body)[-64:]

    def on_message_complete(self) -> None:
        is_whole = self._call is not None and (self._call.status != 200 or _END_MARK in self._tail)
        stays = self._parser.should_keep_alive()
        self._finish(End.WHOLE if is_whole else End.CUT)
        if stays and not self._pause_seconds:
            self._on_idle(self)
        else:
            self._transport.close()

    def _note_chunks(self, call: StreamCall, num_new: int) -> None:
        now = self._clock()
        if call.first_chunk_at is None:
            call.first_chunk_at = now
            call.headers.clear()
        first = call.num_chunks
        call.num_chunks += num_new
        self._lateness += [
            now - index * self._pace_seconds for index in range(first, call.num_chunks)
        ]

    def _finish(self, end: End) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.end, call.ended_at = end, self._clock()
            beginning = min(self._lateness, default=0.0)
            self._put_delays([late - beginning for late in self._lateness])
            self._on_ended(call)

    def _read_on(self) -> None:
        if not self.is_lost:
            self._transport.resume_reading()


def _forget(delays: Sequence[float]) -> None:
    """Nobody is told."""
