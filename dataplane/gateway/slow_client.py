"""What becomes of an attempt while its client reads too slowly.

    bytes that wait
       twice  ------------------.-''-.----    its events are left where they are, engine held up
              |              .-'      '-.
       buffer ----------.-'-----------'-.-    its engine is asked to pause, where it can
              |     .-'                    '-.
       half   --.-'---------------------------'-.---    it is asked to go on

Events are drained on until twice the buffer waits: what is under way when an engine pauses still
comes, and of an engine that had come to its end already the slot and the blocks are free. Whether
an engine paused is for itself to tell; that it is only held up, its events left to wait, is
`inferred`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from dataplane.backlog import TOO_SLOW_CODE
from dataplane.engine import EngineUnavailableError
from dataplane.engine_pause import EnginePauser
from dataplane.gateway.attempt import Attempt
from dataplane.gateway.early_end import Wish
from dataplane.lifecycle import Disposition, EventKind, Observability


@dataclass(slots=True, eq=False)
class SlowClient:
    """Of one attempt, and in use while that is drained."""

    attempt: Attempt
    end_early: Callable[[Wish], None]
    _pauser: EnginePauser | None = field(init=False)
    _waiting: "asyncio.Task[None] | None" = None

    def __post_init__(self) -> None:
        client = self.attempt.client
        self._pauser = client if isinstance(client, EnginePauser) else None

    async def attend(self) -> None:
        """More waits than may. Returns once the next event may be taken."""
        if self._is_over:
            return
        backlog = self.attempt.output.backlog
        can_wait = self._pauser is None and backlog.may_pause and not backlog.is_far_over
        if self._waiting is None and not can_wait:
            await self._begin()
        if self._waiting is not None and backlog.is_far_over:
            await self._hold_up(self._waiting)

    def close(self) -> None:
        """Its attempt is over."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None
            self.attempt.output.backlog.resume(self.attempt.request.now())
        self.attempt.output.backlog.is_engine_paused = False

    @property
    def _is_over(self) -> bool:
        attempt = self.attempt
        return attempt.request.lifecycle.is_terminal or attempt.early_end.wish is not None

    async def _begin(self) -> None:
        attempt = self.attempt
        seconds = attempt.output.backlog.pause(attempt.request.now())
        if seconds == 0:
            self._give_up()
            return
        attempt.placement.forget_pace()
        await self._ask(is_paused=True)
        self._waiting = asyncio.create_task(
            self._wait(seconds), name=f"client of {attempt.request.request_id}"
        )

    async def _wait(self, seconds: float) -> None:
        """For the client to read."""
        attempt = self.attempt
        try:
            async with asyncio.timeout(seconds):
                await attempt.output.room()
        except TimeoutError:
            if not self._is_over:
                self._give_up()
        attempt.output.backlog.resume(attempt.request.now())
        if not self._is_over:
            await self._ask(is_paused=False)
        self._waiting = None

    async def _hold_up(self, waiting: "asyncio.Task[None]") -> None:
        is_told = self.attempt.output.backlog.is_engine_paused
        if not is_told:
            self._note(EventKind.PAUSED, self.attempt.output.backlog.why_held_up)
        try:
            await asyncio.wait({waiting})
        finally:
            if not is_told and not self.attempt.request.lifecycle.is_terminal:
                self._note(EventKind.RESUMED)

    async def _ask(self, is_paused: bool) -> None:
        if self._pauser is None:
            return
        # A replica that is lost tells so through the events of the submission as well.
        with contextlib.suppress(EngineUnavailableError):
            await self._pauser.pause(self.attempt.request.request_id, is_paused)

    def _give_up(self) -> None:
        self.end_early(
            Wish(
                disposition=Disposition.CANCELLED,
                reason=self.attempt.output.backlog.why_ended,
                status=408,
                code=TOO_SLOW_CODE,
            )
        )

    def _note(self, kind: EventKind, why: str | None = None) -> None:
        self.attempt.request.apply(
            kind,
            attempt=self.attempt.number,
            replica_id=self.attempt.replica_id,
            observability=Observability.INFERRED,
            reason=why,
        )
