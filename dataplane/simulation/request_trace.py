"""The lifecycle of a simulated request, as its gateway would have recorded it."""

from typing import Any

import msgspec

from dataplane.decision import AdmissionDecision, RoutingDecision
from dataplane.lifecycle import Event, EventKind, Lifecycle


class RequestTrace:
    """Takes events at virtual times. Raises LifecycleError for what cannot follow."""

    __slots__ = ("_arrived_at", "attempt", "decision", "lifecycle", "num_tokens", "routing")

    def __init__(self, request_id: str, arrived_at: float, arrived_at_unix_ns: int) -> None:
        self.lifecycle = Lifecycle(request_id=request_id, arrived_at_unix_ns=arrived_at_unix_ns)
        self._arrived_at = arrived_at
        self.attempt = 0
        self.num_tokens = 0
        """Of those that events tell of."""
        self.decision: AdmissionDecision | None = None
        """None: it was not decided on."""
        self.routing: list[RoutingDecision] = []
        """One for each attempt."""
        self.note(EventKind.ARRIVED, arrived_at)

    def note(self, kind: EventKind, now: float, **fields: Any) -> None:
        """An event of the present attempt. `now` is the timeline's."""
        at = max(0.0, now - self._arrived_at)
        self.lifecycle.apply(Event(kind=kind, at=at, attempt=self.attempt, **fields))

    def note_routing(self, decision: RoutingDecision, attempt: int, snapshot_version: int) -> None:
        """Why an attempt is where it is."""
        self.routing.append(
            msgspec.structs.replace(decision, attempt=attempt, snapshot_version=snapshot_version)
        )
