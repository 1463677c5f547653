"""The engine side of the requests of one simulated gateway: what engines tell of them.

As `dataplane.gateway.engine_side`, for all requests at once. Engines tell it as it happens.
"""

from dataplane.lifecycle import Disposition, EventKind, Observability, State
from dataplane.routing.placement import Placement
from dataplane.simulation.fleet_client_side import FleetClientSide
from dataplane.simulation.fleet_registry import FleetRegistry
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.timeline import Timeline

# Read with every request, and a name costs a fraction of what a member of an enum does.
_QUEUED = State.QUEUED
_PREFILL = State.PREFILL
_DECODE = State.DECODE
_FINISHED = State.FINISHED


class FleetEngineSide:
    """Takes requests from their submission until they are released."""

    def __init__(
        self, registry: FleetRegistry, client_side: FleetClientSide, timeline: Timeline
    ) -> None:
        self.num_leaked = 0
        """Requests whose engine did not confirm an end, or a release, in time."""
        self._registry = registry
        self._client_side = client_side
        self._timeline = timeline

    def note_scheduled(self, request: FleetRequest, now: float) -> None:
        """Engine work began."""
        if request.state is _QUEUED:
            request.state = _PREFILL
            request.scheduled_at = now
        if request.trace is not None and request.state is not _FINISHED:
            assert request.replica is not None
            request.trace.note(EventKind.SCHEDULED, now, replica_id=request.replica.replica_id)

    def note_first_token(self, request: FleetRequest, now: float) -> None:
        """It selected its first token."""
        request.state = _DECODE
        request.first_token_at = now
        if request.lease is not None:
            self._note_prefilled(request, request.lease.placement)
        if request.trace is not None:
            request.trace.note(EventKind.FIRST_TOKEN, now, num_tokens=1)
        request.num_output_tokens = 1
        self._client_side.begin(request)

    def _note_prefilled(self, request: FleetRequest, placement: Placement) -> None:
        sequence = request.sequence
        if placement.has_blocks and sequence is not None and request.scheduled_at is not None:
            placement.note_scheduled(request.scheduled_at)
            placement.note_cached(sequence.num_cached_tokens)
        placement.note_first_token()

    def note_further_first_token(self, request: FleetRequest, index: int, now: float) -> None:
        """A further sequence of it selected its first token."""
        if request.trace is not None:
            request.trace.note(EventKind.FIRST_TOKEN, now, num_tokens=1, sequence=index)
        request.num_output_tokens += 1
        self._client_side.put(request, 1)

    def note_tokens(self, request: FleetRequest, num_new: int, index: int) -> None:
        """So many more of a sequence were selected. Only of requests that are followed."""
        request.num_output_tokens += num_new
        if request.trace is not None:
            now = self._timeline.now
            request.trace.note(EventKind.TOKENS, now, num_tokens=num_new, sequence=index)
        self._client_side.put(request, num_new)

    def note_sequence_complete(self, request: FleetRequest, index: int, now: float) -> None:
        """One of several sequences selected its last token, and others have not."""
        if request.trace is not None and request.state is not _FINISHED:
            disposition = _disposition_of(request, index)
            request.trace.note(EventKind.FINISHED, now, disposition=disposition, sequence=index)

    def note_complete(self, request: FleetRequest, now: float, index: int = 0) -> None:
        """It selected its last token; of several sequences, this was the last to."""
        if request.state is _FINISHED:
            return
        request.last_token_at = now
        self._registry.end(request, _disposition_of(request, index), None, index)
        self._client_side.end(request)

    def note_failed(self, request: FleetRequest, reason: str, status: int = 500) -> None:
        """Its engine cannot go on with it."""
        if request.state is not _FINISHED:
            if request.lease is not None:
                request.lease.placement.fail()
            self._registry.fail(request, Disposition.ERROR, reason, status)

    def note_cancelled(self, request: FleetRequest) -> None:
        """Its engine confirms that it was ended early."""
        if request.state is not _FINISHED:
            reason = request.reason or "cancelled"
            self._registry.fail(request, Disposition.CANCELLED, reason, None)

    def note_released(self, request: FleetRequest) -> None:
        """Its engine holds nothing of it any more."""
        if request.trace is not None and not request.is_released:
            request.trace.note(EventKind.RELEASED, self._timeline.now)
        self._registry.release(request)

    def release_with_replica(self, request: FleetRequest, error: str) -> None:
        """What a vanished replica held is gone with it, though nobody saw it happen."""
        if request.trace is not None and request.trace.lifecycle.was_scheduled:
            request.trace.note(
                EventKind.RELEASED,
                self._timeline.now,
                observability=Observability.INFERRED,
                reason=error,
            )
        self._registry.release(request)

    def give_up(self, request: FleetRequest) -> None:
        """The engine did not confirm an end, or a release, within its bound: a leak."""
        if request.is_released or not self._registry.is_live(request):
            return
        self.num_leaked += 1
        if request.state is not _FINISHED:
            reason = f"{request.reason or 'it stalled'}; the engine did not confirm the end"
            self._registry.fail(request, Disposition.CANCELLED, reason, 503)
        if request.replica is not None:
            request.replica.forget(request)
        self._registry.release(request)


def _disposition_of(request: FleetRequest, index: int) -> Disposition:
    """Of a sequence that is complete."""
    answer = request.call.further_answers[index - 1] if index else request.call.answer
    return Disposition.LENGTH if len(answer) > request.max_output_tokens else Disposition.STOP
