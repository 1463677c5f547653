"""What an engine has produced and a client has not been handed: the joint between both sides.

The engine side puts text in as it comes, by sequence, and never waits for the client; the
client side takes all there is at once, so that a slow client gets fewer, larger fragments.
The bound on memory is the request's own output limit.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dataplane.engine import TokenLogprob
from dataplane.lifecycle import ANSWERS, Disposition

Delta = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the engine side ended."""

    disposition: Disposition
    reason: str | None = None
    status: int | None = None
    """What the caller should see where this is an error; None: it follows from the disposition."""

    @property
    def is_answer(self) -> bool:
        """The text is a whole answer."""
        return self.disposition in ANSWERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
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
    def num_values(self) -> int:
        """Tokens, and what is told of each: the work of writing the piece down."""
        return self.num_tokens + sum(1 + len(entry.top) for entry in self.logprobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """All that was ready at one moment."""

    pieces: tuple[Piece, ...]
    ending: Ending | None
    """Set on the last fragment."""

    @property
    def num_tokens(self) -> int:
        """Tokens that it completes, of all sequences."""
        return sum(piece.num_tokens for piece in self.pieces)

    @property
    def has_content(self) -> bool:
        """It holds what a stream says before its own end."""
        return any(piece.parts or self.ending is None for piece in self.pieces)


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
        self.logprobs += self.pending_logprobs
        self.pending_logprobs.clear()

    def take(self, sequence: int) -> Piece:
        piece = Piece(
            sequence=sequence,
            parts=tuple(_join(self.parts)),
            num_tokens=self.num_tokens,
            logprobs=tuple(self.logprobs),
            logprob_offset=self.num_taken_chars,
            finish_reason=self.finish_reason,
        )
        self.num_taken_chars += sum(len(entry.token) for entry in self.logprobs)
        self.parts.clear()
        self.logprobs.clear()
        self.num_tokens = 0
        self.finish_reason = None
        return piece

    @property
    def has_something(self) -> bool:
        return bool(self.parts or self.num_tokens or self.logprobs or self.finish_reason)


@dataclass(slots=True)
class Output:
    """Text on its way from one engine side to one client side."""

    ending: Ending | None = None
    _buffers: dict[int, _Buffer] = field(default_factory=dict)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(
        self,
        text: str,
        num_tokens: int,
        sequence: int = 0,
        logprobs: tuple[TokenLogprob, ...] = (),
        delta: Delta | None = None,
    ) -> None:
        """`num_tokens` more were selected, and `text` and `delta` may be delivered."""
        buffer = self._buffers.setdefault(sequence, _Buffer())
        buffer.num_pending_tokens += num_tokens
        buffer.pending_logprobs += logprobs
        buffer.parts += [part for part in (text, delta) if part]
        if text or delta:
            buffer.release()
            self._changed.set()

    def end_sequence(self, sequence: int, finish_reason: str) -> None:
        """Nothing of it follows."""
        buffer = self._buffers.setdefault(sequence, _Buffer())
        buffer.release()
        buffer.finish_reason = finish_reason
        self._changed.set()

    def end(self, ending: Ending) -> None:
        """Nothing follows. Only the first ending counts."""
        if self.ending is None:
            self.ending = ending
            for buffer in self._buffers.values():
                buffer.release()
            self._changed.set()

    def wake(self) -> None:
        """Let the taker look around: its client may have left."""
        self._changed.set()

    async def changed(self) -> None:
        """Wait until something was put, ended or woken since the last `take`."""
        await self._changed.wait()

    def take(self) -> Fragment:
        """All that is ready, which may be nothing."""
        self._changed.clear()
        pieces = tuple(
            buffer.take(sequence)
            for sequence, buffer in sorted(self._buffers.items())
            if buffer.has_something
        )
        return Fragment(pieces=pieces, ending=self.ending)


def _join(parts: list[str | Delta]) -> list[str | Delta]:
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
    return joined
