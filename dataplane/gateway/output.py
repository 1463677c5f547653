"""What an engine has produced and a client has not been handed: the joint between both sides.

The engine side puts text in as it comes, by sequence; the client side takes all there is at
once, so that a slow client gets fewer, larger fragments. How much may wait for a client is
bounded: beyond it the engine side waits for `room`, or ends the request (see dataplane.backlog).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dataplane.backlog import Backlog
from dataplane.engine import TokenLogprob
from dataplane.lifecycle import ANSWERS, Disposition
from dataplane.reasoning import is_answer
from dataplane.slow_client_terms import SlowClientTerms

Delta = Mapping[str, Any]
_LOGPROB_BYTES = 64
"""About what one of them takes, beside its text."""
_MAX_PARTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the engine side ended."""

    disposition: Disposition
    reason: str | None = None
    status: int | None = None
    """What the caller should see where this is an error; None: it follows from the disposition."""
    code: str | None = None
    """Of the error that the caller is told; None: it follows from the rest."""

    @property
    def is_answer(self) -> bool:
        """The text is a whole answer."""
        return self.disposition in ANSWERS


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """What was ready of one sequence."""

    sequence: int
    parts: tuple[str | Delta, ...] = ()
    """Text, and what else a chat's `delta` may hold, in order; no two texts in a row."""
    num_tokens: int = 0
    """Tokens that the parts complete."""
    logprobs: tuple[TokenLogprob, ...] = ()
    logprob_offset: int = 0
    """Characters of all tokens before the first of them."""
    finish_reason: str | None = None
    """Set once, with the sequence's last piece."""

    @property
    def has_answer(self) -> bool:
        """Some of its parts are no reasoning."""
        return any(isinstance(part, str) or is_answer(part) for part in self.parts)

    @property
    def num_values(self) -> int:
        """Tokens, and what is told of each: the work of writing the piece down."""
        if not self.logprobs:
            return self.num_tokens
        return self.num_tokens + sum(1 + len(entry.top) for entry in self.logprobs)


class Fragment(msgspec.Struct, frozen=True, kw_only=True):
    """All that was ready at one moment."""

    pieces: tuple[Piece, ...]
    ending: Ending | None
    """Set on the last fragment."""
    num_bytes: int = 0
    """As the backlog counts them."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it completes, of all sequences."""
        return sum([piece.num_tokens for piece in self.pieces])

    @property
    def has_content(self) -> bool:
        """It holds what a stream says before its own end."""
        if self.ending is None:
            return bool(self.pieces)
        return any(piece.parts for piece in self.pieces)


@dataclass(slots=True)
class _Buffer:
    """One sequence's part of an output."""

    parts: list[str | Delta] = field(default_factory=list)
    num_tokens: int = 0
    logprobs: list[TokenLogprob] = field(default_factory=list)
    num_taken_chars: int = 0
    """Of the tokens whose logprobs were taken."""
    num_pending_tokens: int = 0
    """Tokens selected whose text is still held back, and their logprobs."""
    pending_logprobs: list[TokenLogprob] = field(default_factory=list)
    finish_reason: str | None = None

    def release(self) -> None:
        """What was pending may go: its text is here, or will never come."""
        self.num_tokens += self.num_pending_tokens
        self.num_pending_tokens = 0
        if self.pending_logprobs:
            self.logprobs += self.pending_logprobs
            self.pending_logprobs.clear()

    def take(self, sequence: int) -> Piece:
        parts, logprobs = self.parts, self.logprobs
        piece = Piece(
            sequence=sequence,
            parts=tuple(parts) if len(parts) < 2 else _join(parts),
            num_tokens=self.num_tokens,
            logprobs=tuple(logprobs) if logprobs else (),
            logprob_offset=self.num_taken_chars,
            finish_reason=self.finish_reason,
        )
        if logprobs:
            self.num_taken_chars += sum(len(entry.token) for entry in self.logprobs)
            self.logprobs.clear()
        parts.clear()
        self.num_tokens = 0
        self.finish_reason = None
        return piece

    @property
    def has_something(self) -> bool:
        return bool(self.parts or self.num_tokens or self.logprobs or self.finish_reason)


@dataclass(slots=True)
class Output:
    """Text on its way from one engine side to one client side."""

    backlog: Backlog = field(default_factory=lambda: Backlog(SlowClientTerms()))
    ending: Ending | None = None
    has_gap: bool = False
    """Something was dropped: what is here is no whole answer any more, and nothing more is put."""
    _buffers: dict[int, _Buffer] = field(default_factory=dict)
    _num_ready_bytes: int = 0
    _is_changed: bool = False
    _taker: asyncio.Future[None] | None = None
    _is_let_go: bool = False
    _putter: asyncio.Future[None] | None = None

    def put(
        self,
        text: str,
        num_tokens: int,
        sequence: int = 0,
        logprobs: tuple[TokenLogprob, ...] = (),
        delta: Delta | None = None,
    ) -> None:
        """`num_tokens` more were selected, and `text` and `delta` may be delivered."""
        buffer = self._buffers.get(sequence)
        if buffer is None:
            buffer = self._buffers[sequence] = _Buffer()
        buffer.num_pending_tokens += num_tokens
        num_bytes = 0
        if text:
            buffer.parts.append(text)
            num_bytes = len(text) if text.isascii() else len(text.encode(errors="replace"))
            if len(buffer.parts) > _MAX_PARTS:  # a short text takes more memory than its bytes
                buffer.parts[:] = _join(buffer.parts)
        if delta:
            buffer.parts.append(delta)
            num_bytes += len(msgspec.json.encode(delta))
        if logprobs:
            buffer.pending_logprobs += logprobs
            num_bytes += sum(_LOGPROB_BYTES * (1 + len(entry.top)) for entry in logprobs)
        self._num_ready_bytes += num_bytes
        self.backlog.put(num_bytes)
        if text or delta:
            buffer.release()
            if not self._is_changed:
                self.wake()

    def end_sequence(self, sequence: int, finish_reason: str) -> None:
        """Nothing of it follows."""
        buffer = self._buffers.setdefault(sequence, _Buffer())
        buffer.release()
        buffer.finish_reason = finish_reason
        self.wake()

    def end(self, ending: Ending) -> None:
        """Nothing follows. Only the first ending counts."""
        if self.ending is None:
            self.ending = ending
            for buffer in self._buffers.values():
                buffer.release()
            self.wake()

    def wake(self) -> None:
        """Let the taker look around: there is something, or its client may have left."""
        self._is_changed = True
        if self._taker is not None:
            _set(self._taker)
            self._taker = None

    async def changed(self) -> None:
        """Wait until something was put, ended or woken since the last `take`. For one taker."""
        if not self._is_changed:
            self._taker = asyncio.get_running_loop().create_future()
            await self._taker

    def take(self) -> Fragment:
        """All that is ready, which may be nothing. It waits on until `note_taken`."""
        self._is_changed = False
        num_bytes, self._num_ready_bytes = self._num_ready_bytes, 0
        buffers = self._buffers.items()
        pieces = tuple(
            [
                buffer.take(sequence)
                for sequence, buffer in (buffers if len(buffers) < 2 else sorted(buffers))
                if buffer.has_something
            ]
        )
        return Fragment(pieces=pieces, ending=self.ending, num_bytes=num_bytes)

    def note_taken(self, fragment: Fragment) -> None:
        """The client has it, or it is kept elsewhere."""
        self.backlog.take(fragment.num_bytes)
        if self._putter is not None and not self.backlog.is_over:
            _set(self._putter)

    async def room(self) -> None:
        """Wait until the backlog is not over any more, or somebody lets go. For one putter."""
        if self.backlog.is_over and not self._is_let_go:
            self._putter = asyncio.get_running_loop().create_future()
            await self._putter

    def let_go(self) -> None:
        """Nobody is to wait for room any more."""
        self._is_let_go = True
        if self._putter is not None:
            _set(self._putter)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _join(parts: list[str | Delta]) -> tuple[str | Delta, ...]:
    """Texts that follow each other become one."""
    joined: list[str | Delta] = []
    texts: list[str] = []
    for part in (*parts, None):
        if isinstance(part, str):
            texts.append(part)
            continue
        if texts:
            joined.append("".join(texts))
            texts.clear()
        if part is not None:
            joined.append(part)
    return tuple(joined)
