"""The requests of one simulated gateway: where each stands, how each ends, and when it is gone.

A request is delivered to its client and released by its engine independently, and is gone when
both have happened::

    opened -> ended -> delivered -> gone        or      opened -> delivered -> ended -> gone
                   \\-> released -^                            \\-> released ----^
"""

from typing import Protocol

from dataplane.admission.deployment_admission import AdmissionHold
from dataplane.lifecycle import ANSWERS, Delivery, Disposition, EventKind, RequestCounts, State
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.timeline import Timeline

# Read with every request, and a name costs a fraction of what a member of an enum does.
_FINISHED = State.FINISHED
_INVALID = State.INVALID
_REJECTED = State.REJECTED

_ACTIVE = frozenset({State.QUEUED, State.PREFILL, State.DECODE})


class RequestFollower(Protocol):
    """The fleet, as it hears of requests."""

    def answered(self, request: FleetRequest) -> None:
        """Its client has what it will get, or has left: once, whatever the engine still does."""
        ...

    def ended(self, request: FleetRequest) -> None:
        """Nothing more happens to it."""
        ...


class FleetRegistry:
    """Knows its own gateway's requests alone."""

    def __init__(self, timeline: Timeline, follower: RequestFollower) -> None:
        self._timeline = timeline
        self._follower = follower
        self._live: dict[int, FleetRequest] = {}
        self.num_arrived = 0
        """Requests so far: the number that the next one has at its gateway. For reading."""
        self._num_invalid = 0
        self._num_rejected = 0
        self._num_finished = 0

    @property
    def num_live(self) -> int:
        """What is not gone."""
        return len(self._live)

    def live(self) -> list[FleetRequest]:
        """What is not gone, oldest first."""
        return list(self._live.values())

    def is_live(self, request: FleetRequest) -> bool:
        """It is not gone."""
        return request.number in self._live

    def counts(self) -> RequestCounts:
        """Where every request stands: one pass over the living, and totals of those that left."""
        states = [request.state for request in self._live.values()]
        active = sum(state in _ACTIVE for state in states)
        finished = self._num_finished + states.count(_FINISHED)
        return RequestCounts(
            arrived=self.num_arrived,
            invalid=self._num_invalid + states.count(_INVALID),
            undecided=states.count(State.ARRIVED),
            rejected=self._num_rejected + states.count(_REJECTED),
            admitted=active + finished,
            active=active,
            finished=finished,
        )

    def open(self, request: FleetRequest) -> None:
        """It arrived."""
        self.num_arrived += 1
        self._live[request.number] = request

    def refuse(self, request: FleetRequest, kind: EventKind, status: int, reason: str) -> None:
        """It may not wait: INVALID or REJECTED."""
        is_invalid = kind is EventKind.INVALID
        request.state = _INVALID if is_invalid else _REJECTED
        request.disposition = Disposition.INVALID if is_invalid else Disposition.REJECTED
        request.status = status
        request.reason = reason
        if request.trace is not None:
            request.trace.note(kind, self._timeline.now, reason=reason)
        self.deliver(request, Delivery.NONE)

    def end(
        self,
        request: FleetRequest,
        disposition: Disposition,
        reason: str | None,
        sequence: int = 0,
    ) -> None:
        """No engine does anything more for it. `sequence` was the last of several to end."""
        request.state = _FINISHED
        request.finished_at = self._timeline.now
        request.disposition = disposition
        request.reason = reason
        request.count_tokens()
        if request.trace is not None:
            request.trace.note(
                EventKind.FINISHED,
                self._timeline.now,
                disposition=disposition,
                reason=reason,
                sequence=sequence,
            )

    def fail(
        self, request: FleetRequest, disposition: Disposition, reason: str, status: int | None
    ) -> None:
        """An end that is no answer. `status` is for a client that was told nothing yet."""
        self.end(request, disposition, reason)
        if request.delivery is not None:
            return
        is_written = request.first_write_at is not None
        if not request.has_left and not is_written:
            request.status = status
            if status == 503:
                request.retry_after = request.gateway.retry_after_seconds()
        self.deliver(request, Delivery.PARTIAL if is_written else Delivery.NONE)

    def deliver(self, request: FleetRequest, delivery: Delivery) -> None:
        """Its client was handed all that it will get."""
        request.delivery = delivery
        request.last_write_at = self._timeline.now
        if request.trace is not None:
            request.trace.note(EventKind.LAST_WRITE, self._timeline.now, delivery=delivery)
        if not request.has_left:
            self._follower.answered(request)
        if request.is_released or request.state in (_INVALID, _REJECTED):
            self._close(request)

    def leave(self, request: FleetRequest, why: str) -> None:
        """Its client is gone, or counts as gone, and goes on with something else."""
        request.has_left = True
        request.reason = why if request.reason is None else request.reason
        self._follower.answered(request)

    def release(self, request: FleetRequest) -> None:
        """Nothing of it is held any more; its slot is free. Twice is no error."""
        if request.is_released:
            return
        request.is_released = True
        lease, request.lease = request.lease, None
        if request.hold is not None:
            self._release_hold(request, request.hold)
        if request.delivery is not None:
            self._close(request)
        if lease is not None:
            if lease.charge is not None or lease.placement.first_token_at is not None:
                num_output = request.num_output_tokens
                lease.settle(request.num_taken_tokens, num_output_tokens=num_output)
            lease.release()

    def _release_hold(self, request: FleetRequest, hold: AdmissionHold) -> None:
        request.hold = None
        num_sequences = request.call.num_sequences
        lengths = [request.num_output_tokens // num_sequences] * num_sequences
        is_answer = request.disposition in ANSWERS
        hold.settle(request.num_taken_tokens, lengths if is_answer else ())
        hold.release()

    def _close(self, request: FleetRequest) -> None:
        del self._live[request.number]
        if request.state is _INVALID:
            self._num_invalid += 1
        elif request.state is _REJECTED:
            self._num_rejected += 1
        else:
            self._num_finished += 1
        self._follower.ended(request)
