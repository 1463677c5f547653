"""One client connection and one request on it, as the server hands them to the application."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

ARRIVAL_KEY = "pilothouse.arrival"
"""Where `scope["state"]` holds the request's Arrival."""


@dataclass(slots=True, eq=False)
class Connection:
    """What the application may know of, and do to, the socket below a request.

    The transport's write buffer takes nothing in reserve: `is_flushed` means that the
    kernel has every byte, and only its small send buffer hides anything.
    """

    transport: asyncio.Transport
    is_private: bool = False
    """It came by a way that clients do not know: to look after this process."""
    is_closed: bool = False
    error: Exception | None = None
    """Why it was lost, when it did not simply end."""
    _flushed: asyncio.Event = field(default_factory=asyncio.Event)
    _watchers: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._flushed.set()

    @property
    def is_flushed(self) -> bool:
        """Nothing waits in the process for the client to read."""
        return self._flushed.is_set()

    @property
    def num_unsent_bytes(self) -> int:
        """What the kernel has not taken yet."""
        return self.transport.get_write_buffer_size()

    async def flushed(self) -> None:
        """Wait until the kernel has all, or the connection is lost."""
        await self._flushed.wait()

    def abort(self) -> None:
        """End it at once, dropping what was not sent."""
        self.transport.abort()

    def watch(self, on_close: Callable[[], None]) -> None:
        """Call `on_close` when the client is gone; at once when it is gone already."""
        if self.is_closed:
            on_close()
        else:
            self._watchers.append(on_close)

    def unwatch(self, on_close: Callable[[], None]) -> None:
        """Forget one `watch`."""
        if on_close in self._watchers:
            self._watchers.remove(on_close)

    def note_paused(self) -> None:
        """The server's: the kernel takes no more for now."""
        self._flushed.clear()

    def note_resumed(self) -> None:
        """The server's: everything was taken."""
        self._flushed.set()

    def note_lost(self, error: Exception | None) -> None:
        """The server's: there will be no more."""
        self.is_closed = True
        self.error = error
        self._flushed.set()
        watchers, self._watchers = self._watchers, []
        for on_close in watchers:
            on_close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """The moment the first byte of a request was read, on both clocks, and where it came from."""

    at: float
    """Monotonic seconds."""
    at_unix_ns: int
    connection: Connection
