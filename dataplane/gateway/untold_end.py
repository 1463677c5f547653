"""Ends that no engine told: the request left its queue, its replica is gone or silent, or the
gateway itself is at fault."""

from dataclasses import dataclass

import structlog

from dataplane.engine import EngineUnavailableError
from dataplane.gateway.early_end import EarlyEnd, Wish
from dataplane.gateway.output import Ending, Output
from dataplane.gateway.registry import InFlightRequest
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.queueing.queue import Departure

_UNREACHED = "no_replica"
_LOST = "replica_lost"
"""Codes of the errors that callers get."""
_log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class UntoldEnd:
    """Ends `request`, and its `output`."""

    request: InFlightRequest
    output: Output
    early_end: EarlyEnd

    def finish(
        self, disposition: Disposition, reason: str, status: int = 503, code: str | None = None
    ) -> None:
        """503: of most such ends the service may have recovered soon."""
        self.request.apply(
            EventKind.FINISHED,
            attempt=self.request.lifecycle.attempt,
            disposition=disposition,
            reason=reason,
        )
        self.output.end(Ending(disposition=disposition, reason=reason, status=status, code=code))

    def finish_if_open(self, disposition: Disposition, reason: str, status: int) -> None:
        """As `finish`, of one that has no end yet."""
        if not self.request.lifecycle.is_terminal:
            self.finish(disposition, reason, status)

    def finish_as_wished(self, wish: Wish) -> None:
        """No engine has it, and somebody wants it to end."""
        self.finish(wish.disposition, wish.reason, wish.status, wish.code)

    def finish_unserved(self, departure: Departure, lost: list[EngineUnavailableError]) -> None:
        """It left the queue without a replica, after it `lost` some."""
        reason = departure.reason
        if lost and departure.disposition is Disposition.ERROR:
            reason = f"{lost[-1]}; {reason}"
        is_unreached = departure.disposition is Disposition.ERROR
        self.finish(departure.disposition, reason, code=_UNREACHED if is_unreached else None)
        if lost:
            self._release_with_replica(lost[-1])

    def finish_lost(self, error: EngineUnavailableError) -> None:
        """Its replica is gone, and no other is tried."""
        self.finish(Disposition.ERROR, str(error), code=_LOST)
        self._release_with_replica(error)

    def finish_gone(self, error: EngineUnavailableError) -> bool:
        """Its replica is gone; False where another may be tried, because the request had not
        ended and nobody wished it."""
        if not self.request.lifecycle.is_terminal:
            if self.early_end.wish is None:
                return False
            self.finish_as_wished(self.early_end.wish)
        self._release_with_replica(error)
        return True

    def finish_silent(self, replica_id: str) -> None:
        """Its engine did not confirm an end, or a release, within its bound: a leak."""
        _log.error(
            "the engine did not release a request in time",
            replica_id=replica_id,
            bound_seconds=self.early_end.release_seconds,
            state=self.request.state,
        )
        if not self.request.lifecycle.is_terminal:
            wish = self.early_end.wish
            wish = wish or Wish(disposition=Disposition.ERROR, reason="it stalled")
            why = f"{wish.reason}; the engine did not confirm the end"
            self.finish(wish.disposition, why, wish.status, wish.code)

    def _release_with_replica(self, error: EngineUnavailableError) -> None:
        """What a vanished replica held is gone with it, though nobody saw it happen."""
        lifecycle = self.request.lifecycle
        if lifecycle.was_scheduled and not lifecycle.is_released:
            self.request.apply(
                EventKind.RELEASED,
                attempt=lifecycle.attempt,
                replica_id=error.replica_id,
                observability=Observability.INFERRED,
                reason=f"the replica is gone: {error.why}",
            )
