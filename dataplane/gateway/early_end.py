"""The wish that a request ends before its engine would end it, and how its engine hears of it."""

import asyncio
import contextlib
from dataclasses import dataclass, field

from dataplane.engine import EngineClient, EngineEvent, EngineUnavailableError
from dataplane.lifecycle import Disposition, EventKind
from dataplane.queueing.queue import Departure


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """How a request is to end, and what its caller is told."""

    disposition: Disposition
    reason: str
    status: int = 503
    code: str | None = None
    """Of the error; None: it follows from the rest."""

    @property
    def departure(self) -> Departure:
        """As its queue hears of it."""
        return Departure(disposition=self.disposition, reason=self.reason)


@dataclass(slots=True, eq=False)
class EarlyEnd:
    """Of one request. The first wish counts; the lifecycle says, later, how it really ended."""

    request_id: str
    release_seconds: float
    """An engine that was told has so long to confirm the end, and the release."""
    wish: Wish | None = None
    """None: it may take its course."""
    _client: EngineClient | None = None
    _limit: asyncio.Timeout | None = None
    _cancels: set["asyncio.Task[None]"] = field(default_factory=set)

    def ask(self, wish: Wish) -> None:
        """Somebody wants it to end, and nobody did before."""
        self.wish = wish
        if self._client is not None:
            self._send(self._client, wish.disposition)

    def attend(self, client: EngineClient, limit: asyncio.Timeout) -> None:
        """An engine has the request; `limit` is of the wait for its events."""
        self._client, self._limit = client, limit

    def leave(self) -> None:
        """No engine has it any more."""
        self._client = self._limit = None

    def bound_wait(self) -> None:
        """From here on its engine has only so long to release what it holds."""
        if self._limit is not None:
            self._limit.reschedule(asyncio.get_running_loop().time() + self.release_seconds)

    def find_wish(self, event: EngineEvent) -> Wish | None:
        """The wish that `event` fulfils; None where the engine came to its end by itself."""
        wish = self.wish
        if wish is None or event.kind is not EventKind.FINISHED:
            return None
        return wish if event.disposition is wish.disposition else None

    async def cancel_at(self, client: EngineClient, disposition: Disposition) -> None:
        """Tell an engine that nothing more is wanted of it."""
        # A replica that is lost tells so through the events of the submission as well.
        with contextlib.suppress(EngineUnavailableError):
            await client.cancel(self.request_id, disposition)

    def close(self) -> None:
        """What was not sent yet need not be."""
        for task in self._cancels:
            task.cancel()

    def _send(self, client: EngineClient, disposition: Disposition) -> None:
        task = asyncio.create_task(
            self.cancel_at(client, disposition), name=f"cancel {self.request_id}"
        )
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)
        self.bound_wait()
