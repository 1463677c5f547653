"""What an engine has produced and a client has not been handed: the joint between both sides.

The engine side puts text in as it comes and never waits for the client; the client side
takes all there is at once, so that a slow client gets fewer, larger fragments. The bound on
memory is the request's own output limit.
"""

import asyncio
from dataclasses import dataclass, field

from dataplane.lifecycle import Disposition


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
        return self.disposition in (Disposition.STOP, Disposition.LENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment:
    """All that was ready at one moment."""

    text: str
    num_tokens: int
    """Tokens that the text completes."""
    ending: Ending | None
    """Set on the last fragment."""


@dataclass(slots=True)
class Output:
    """Text on its way from one engine side to one client side."""

    ending: Ending | None = None
    _texts: list[str] = field(default_factory=list)
    _num_tokens: int = 0
    _num_pending_tokens: int = 0
    """Tokens selected whose text is still held back."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, text: str, num_tokens: int) -> None:
        """`num_tokens` more were selected, and `text` may be delivered."""
        self._num_pending_tokens += num_tokens
        if not text:
            return
        self._texts.append(text)
        self._num_tokens += self._num_pending_tokens
        self._num_pending_tokens = 0
        self._changed.set()

    def end(self, ending: Ending) -> None:
        """Nothing follows. Only the first ending counts."""
        if self.ending is None:
            self.ending = ending
            self._num_tokens += self._num_pending_tokens
            self._num_pending_tokens = 0
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
        fragment = Fragment(
            text="".join(self._texts), num_tokens=self._num_tokens, ending=self.ending
        )
        self._texts.clear()
        self._num_tokens = 0
        return fragment
