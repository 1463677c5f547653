"""One request's answer as its connection hands it over, turned into events of the engine contract.

It never raises into the connection: what cannot be read makes the replica unavailable for this
request, and hangs up.
"""

import json
from typing import Any

import msgspec

from dataplane.engine import EngineEvent, EngineUnavailableError
from dataplane.event_queue import EventQueue
from dataplane.lifecycle import Disposition, EventKind
from dataplane.line_stream import LineTooLongError
from dataplane.openai_endpoint.chunks import ChunkReader, MalformedChunkError
from dataplane.openai_endpoint.dialect import Dialect
from dataplane.openai_endpoint.event_lines import EventLines
from dataplane.openai_endpoint.http import say
from dataplane.openai_endpoint.refusal import Refusal, status_of
from dataplane.openai_endpoint.upstream import Exchange

_OK = 200
_DONE = b"[DONE]"
_MAX_ERROR_BYTES = 4096
_MAX_LINE_BYTES = 4 * 2**20
"""A chunk is one line."""


class Answer:
    """A Listener that fills a queue of events, and keeps its exchange from filling it too far."""

    def __init__(self, replica_id: str, dialect: Dialect, num_sequences: int) -> None:
        self.events = EventQueue(on_turn=self._turn)
        self.exchange: Exchange | None = None
        """Set by who begins it."""
        self.is_over = False
        """Its last event waits in the queue, or was taken."""
        self._replica_id = replica_id
        self._dialect = dialect
        self._reader = ChunkReader(num_sequences=num_sequences)
        self._lines = EventLines(_MAX_LINE_BYTES)
        self._status = 0
        self._refused = b""

    def end_early(self, disposition: Disposition) -> None:
        """Hang up; the request ends as that."""
        if self.is_over:
            return
        self._finish(EngineEvent(kind=EventKind.FINISHED, disposition=disposition))
        self._hang_up()

    def leave(self) -> None:
        """Nobody takes its events any more."""
        if self.is_over and self.exchange is not None:
            self.exchange.let_go()
        else:
            self._hang_up()

    def status(self, code: int) -> None:
        """Anything but 200 is a refusal, and no stream."""
        self._status = code

    def body(self, data: bytes) -> None:
        """Whole lines are read at once."""
        if self.is_over:
            return
        if self._status != _OK:
            self._refused = (self._refused + data)[:_MAX_ERROR_BYTES]
            return
        try:
            self._read(self._lines.feed(data))
        except (LineTooLongError, MalformedChunkError, ValueError) as error:
            self.lost(say(error))

    def ended(self) -> None:
        """The stream is complete, whether it said so or not."""
        if self.is_over:
            return
        if self._status != _OK:
            self._refuse(self._dialect.read_refusal(self._status, _parsed(self._refused)))
            return
        try:
            self._read(self._lines.end())
        except (MalformedChunkError, ValueError) as error:
            self.lost(say(error))
            return
        self._end()

    def lost(self, why: str) -> None:
        """The replica is unavailable, as far as this request can tell."""
        if not self.is_over:
            self._finish(EngineUnavailableError(self._replica_id, why))
            self._hang_up()

    def _hang_up(self) -> None:
        if self.exchange is not None:
            self.exchange.hang_up()

    def _read(self, payloads: list[bytes]) -> None:
        for payload in payloads:
            if self.is_over:
                return
            if payload == _DONE:
                self._end()
                return
            chunk = _decode(payload)
            if isinstance(chunk, dict) and chunk.get("error"):
                status = status_of(chunk, default=502)
                self._refuse(self._dialect.read_refusal(status, chunk))
                return
            for event in self._reader.read(chunk):
                self.events.put(event)

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            for event in self._reader.end():
                self.events.put(event)

    def _refuse(self, refusal: Refusal) -> None:
        self._finish(
            EngineEvent(
                kind=EventKind.FINISHED,
                disposition=Disposition.ERROR,
                status_code=refusal.status_code,
                error_code=refusal.code,
                reason=refusal.reason,
            )
        )

    def _finish(self, item: EngineEvent | EngineUnavailableError) -> None:
        self.is_over = True
        self.events.put(item)

    def _turn(self, is_full: bool) -> None:
        if self.exchange is not None:
            if is_full:
                self.exchange.pause()
            else:
                self.exchange.resume()


def _decode(payload: bytes) -> Any:
    """Raises ValueError. What is no UTF-8 is read with its holes marked."""
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(payload.decode(errors="replace"))


def _parsed(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except ValueError:
        return body.decode(errors="replace")
    return parsed
