"""Ctrl-C as an answer: who has seen enough asks for what was seen, from the first moment on."""

import signal
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import asyncio


class Enough:
    """While it is entered, the first Ctrl-C is kept for `event`, also one that comes before a loop
    runs; the second ends the command, and further ones do not keep it from ending."""

    def __init__(self) -> None:
        self._is_told = False
        self._is_ended = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._event: asyncio.Event | None = None
        self._before: signal._HANDLER = None

    def event(self) -> "asyncio.Event":
        """Of the loop that runs now; set once Ctrl-C came."""
        import asyncio

        self._loop, self._event = asyncio.get_running_loop(), asyncio.Event()
        if self._is_told:
            self._event.set()
        return self._event

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_ended and kind is not None:
            return  # what is being left goes on being left
        signal.signal(signal.SIGINT, self._before)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_told:
            self._is_ended = True
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            raise KeyboardInterrupt
        self._is_told = True
        if self._loop is not None and self._event is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._event.set)
