"""Events of a core, dated as they are made."""

from typing import Any

from dataplane.clock import MonotonicClock
from dataplane.host.core import CoreEvent
from dataplane.lifecycle import Disposition, EventKind
from dataplane.scheduling.sequence import Sequence


class CoreEvents:
    """Makes events on one clock."""

    def __init__(self, clock: MonotonicClock) -> None:
        self._clock = clock

    def now(self) -> float:
        """On the clock that events are dated by."""
        return self._clock()

    def of(self, sequence: Sequence, kind: EventKind, **fields: Any) -> CoreEvent:
        """What happened to a sequence now."""
        return CoreEvent(
            request_id=sequence.request_id,
            sequence=sequence.index,
            kind=kind,
            at=self._clock(),
            **fields,
        )

    def end(
        self,
        request_id: str,
        disposition: Disposition,
        reason: str | None = None,
        sequence: int = 0,
    ) -> CoreEvent:
        """A request, or one sequence of it, is finished."""
        return CoreEvent(
            request_id=request_id,
            sequence=sequence,
            kind=EventKind.FINISHED,
            at=self._clock(),
            disposition=disposition,
            reason=reason,
        )
