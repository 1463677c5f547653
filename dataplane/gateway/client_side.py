"""The client side of one request: what the engine side put out, handed over at the client's pace.

A stream gets its status with its first text, so that an error before that is a proper HTTP
error; later ones are an event in the stream, after which it ends without the end mark.
Only what was written before a disconnect was seen counts as delivered.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dataplane.gateway.exchange import Exchange
from dataplane.gateway.openai_api.answers import AnswerShape, Usage, error_event
from dataplane.gateway.openai_api.errors import ApiError
from dataplane.gateway.output import Ending, Fragment, Output, Piece
from dataplane.gateway.registry import InFlightRequest
from dataplane.lifecycle import AnswerPart, Delivery, Disposition, Event, EventKind, State

_MAX_VALUES_ON_LOOP = 2048
"""Writing that many tokens and alternatives down takes some milliseconds."""


@dataclass(slots=True, eq=False)
class ClientSide:
    """Delivers `output` to `exchange`. `deliver` is called once."""

    request: InFlightRequest
    exchange: Exchange
    shape: AnswerShape
    output: Output
    retry_after: Callable[[], int]
    """Seconds after which somebody who got no answer should come again."""
    _is_thinking: bool = False
    """The client was handed reasoning, and nothing of the answer."""
    _closing: tuple[float, Delivery, float | None] | None = None

    async def deliver(self) -> bool:
        """Hand the answer over as it comes; False when the client left before it had all."""
        self.exchange.watch(self.output.wake)
        try:
            if self.request.is_stream:
                return await self._deliver_stream()
            return await self._deliver_whole()
        finally:
            self.exchange.unwatch(self.output.wake)

    def close_delivery(self) -> None:
        """Record the end of delivery where it could not be recorded when it came.

        A client may leave while its request is still queued, when nothing can be written yet.
        """
        if self._closing is None or self.request.lifecycle.is_delivered:
            return
        if self.request.state is State.QUEUED:
            return
        at, delivery, waited = self._closing
        # Also of an answer that had ended well: whoever looks wonders why it was cut off.
        why = self.exchange.gave_up_reason
        self.request.apply(
            EventKind.LAST_WRITE, at, delivery=delivery, waited_seconds=waited, reason=why
        )

    async def _deliver_stream(self) -> bool:
        while True:
            await self.output.changed()
            if self.exchange.is_client_gone:
                return self._note_gone()
            fragment = self.output.take()
            ending = fragment.ending
            if ending is not None and not ending.is_answer and not self.request.has_written:
                return await self._answer_error(ending)
            if fragment.has_content and not await self._write(fragment):
                return self._note_gone()
            self.output.note_taken(fragment)
            if ending is not None:
                return await self._end_stream(fragment, ending)

    async def _write(self, fragment: Fragment) -> bool:
        pieces, request = fragment.pieces, self.request
        so_far = self._usage_so_far()
        if _is_much(pieces):
            data = await asyncio.to_thread(self.shape.content_chunks, pieces, so_far)
        else:
            data = self.shape.content_chunks(pieces, so_far)
        if fragment.ending is None:
            data += self.shape.end_chunks(pieces, so_far)
        if not request.has_written:
            await self.exchange.start_stream()
            data = self.shape.first_chunks() + data
        request.waits_for_client = True
        waited = await self.exchange.write(data)
        request.waits_for_client = False
        if waited is None:
            return False
        self._note_write(fragment.num_tokens, waited, pieces)
        return True

    async def _end_stream(self, fragment: Fragment, ending: Ending) -> bool:
        if not ending.is_answer:
            error = error_of(ending, self.retry_after, self.request.policy_revision)
            data = error_event(error)
        else:
            data = self.shape.end_chunks(fragment.pieces, self._usage_so_far())
            data += self.shape.last_chunks(self._usage())
            if not self.request.has_written:  # an answer without any text
                await self.exchange.start_stream()
                data = self.shape.first_chunks() + data
        waited = await self.exchange.write(data, is_last=True)
        if waited is None:
            return self._note_gone()
        if not self.request.has_written:
            self._note_write(0, waited, ())
        delivery = Delivery.COMPLETE if ending.is_answer else Delivery.PARTIAL
        return self._close(delivery, waited)

    async def _deliver_whole(self) -> bool:
        pieces: list[Piece] = []
        num_tokens = 0
        while True:
            await self.output.changed()
            if self.exchange.is_client_gone:
                return self._note_gone()
            fragment = self.output.take()
            self.output.note_taken(fragment)
            pieces += fragment.pieces
            num_tokens += fragment.num_tokens
            if fragment.ending is not None:
                break
        if not fragment.ending.is_answer:
            return await self._answer_error(fragment.ending)
        usage = self._usage()
        if _is_much(pieces):
            body = await asyncio.to_thread(self.shape.whole, pieces, usage)
        else:
            body = self.shape.whole(pieces, usage)
        waited = await self.exchange.answer(200, body)
        if waited is None:
            return self._note_gone()
        self._note_write(num_tokens, waited, pieces)
        return self._close(Delivery.COMPLETE, waited)

    async def _answer_error(self, ending: Ending) -> bool:
        error = error_of(ending, self.retry_after, self.request.policy_revision)
        waited = await self.exchange.answer_error(error)
        if waited is None:
            return self._note_gone()
        return self._close(Delivery.NONE, waited)

    def _usage_so_far(self) -> Usage | None:
        """What chunks tell along; None: they do not."""
        return self._usage() if self.shape.tells_usage_along else None

    def _usage(self) -> Usage:
        return Usage(
            num_prompt_tokens=self.request.num_prompt_tokens or 0,
            num_output_tokens=self.request.num_output_tokens,
            num_cached_tokens=self.request.num_cached_tokens,
        )

    def _note_write(self, num_tokens: int, waited: float, pieces: Sequence[Piece]) -> None:
        request = self.request
        is_first = not request.has_written
        begins = self._begins(pieces) if is_first or self._is_thinking else None
        request.lifecycle.apply(
            Event(
                kind=EventKind.FIRST_WRITE if is_first else EventKind.WRITE,
                at=request.now(),
                num_tokens=num_tokens,
                waited_seconds=waited,
                begins=begins,
            )
        )
        if is_first:
            request.has_written = True
            request.note_progress()

    def _begins(self, pieces: Sequence[Piece]) -> AnswerPart | None:
        """What a client is handed for the first time, where reasoning is set apart."""
        if any(piece.has_answer for piece in pieces):
            begins = AnswerPart.ANSWER if self._is_thinking else None
            self._is_thinking = False
            return begins
        if self._is_thinking or not any(piece.parts for piece in pieces):
            return None
        self._is_thinking = True
        return AnswerPart.REASONING

    def _note_gone(self) -> bool:
        self._close(Delivery.PARTIAL if self.request.has_written else Delivery.NONE, None)
        return False

    def _close(self, delivery: Delivery, waited: float | None) -> bool:
        self._closing = (self.request.now(), delivery, waited)
        self.close_delivery()
        return True


def _is_much(pieces: Sequence[Piece]) -> bool:
    """Too much to be written down on the event loop."""
    return sum([piece.num_values for piece in pieces]) > _MAX_VALUES_ON_LOOP


def error_of(
    ending: Ending, retry_after: Callable[[], int], policy_revision: str | None
) -> ApiError:
    """What the caller is told about an end that is no answer."""
    message = ending.reason or f"the request ended: {ending.disposition}"
    if ending.status is not None and 400 <= ending.status < 500:
        return ApiError(status=ending.status, message=message, code=ending.code or "engine_refused")
    is_late = ending.disposition in (Disposition.DEADLINE, Disposition.SHED)
    status = 503 if is_late else ending.status or 500
    return ApiError(
        status=status,
        message=message,
        code=ending.code or str(ending.disposition),
        retry_after_seconds=retry_after() if status == 503 else None,
        policy_revision=policy_revision if is_late else None,
    )
