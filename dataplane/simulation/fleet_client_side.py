"""The client side of the requests of one simulated gateway: patience, writes, and leaving.

As `dataplane.gateway.client_side`, for all requests at once.
"""

from dataplane.lifecycle import Delivery, Disposition, EventKind, State
from dataplane.queueing.queue import Departure, DeploymentQueue
from dataplane.simulation.clients import Reading
from dataplane.simulation.fleet_registry import FleetRegistry
from dataplane.simulation.fleet_request import FleetRequest
from dataplane.simulation.gateway_overheads import GatewayOverheads
from dataplane.simulation.late_delivery import AnswerDelivery, LateDelivery, PromptDelivery
from dataplane.simulation.slow_delivery import SlowDelivery
from dataplane.simulation.timeline import Timeline


class FleetClientSide:
    """Hands answers over. A client that leaves has its request taken out of the queue, or
    cancelled, and the engine has `release_seconds` to be done with it."""

    def __init__(
        self,
        registry: FleetRegistry,
        queue: DeploymentQueue,
        timeline: Timeline,
        write_seconds: float,
        release_seconds: float,
        overheads: GatewayOverheads | None = None,
    ) -> None:
        self._registry = registry
        self._queue = queue
        self._timeline = timeline
        self._write_seconds = write_seconds
        self._release_seconds = release_seconds
        self._overheads = overheads

    def watch(self, request: FleetRequest) -> None:
        """It was admitted. Its client waits since it came, as long as it is willing to."""
        client = request.call.caller.client
        waited = self._timeline.now - request.arrived_at
        if client.first_token_within is not None:
            left = max(0.0, client.first_token_within - waited)
            self._timeline.after(left, request.lose_patience_for_first_token)
        if client.answer_within is not None:
            self._timeline.after(max(0.0, client.answer_within - waited), request.lose_patience)

    def begin(self, request: FleetRequest) -> None:
        """The first token is ready."""
        caller = request.call.caller
        if request.has_left or not caller.is_stream:
            return
        if self._overheads is not None:
            request.late_delivery = LateDelivery(
                self._timeline, request, self._open, self._overheads.before_first_write()
            )
            request.late_delivery.put(1)
            return
        if caller.client.reading is None:
            self.note_write(request, 1, 0.0)
            return
        request.slow_delivery = self._read_slowly(request, caller.client.reading)
        request.slow_delivery.put(1)

    def put(self, request: FleetRequest, num_new: int) -> None:
        """So many more are ready. Only of requests that are followed."""
        if request.has_left or not request.call.caller.is_stream:
            return
        if request.late_delivery is not None:
            request.late_delivery.put(request.num_output_tokens)
        elif request.slow_delivery is not None:
            request.slow_delivery.put(request.num_output_tokens)
        elif request.trace is not None:
            self.note_write(request, num_new, 0.0)

    def end(self, request: FleetRequest) -> None:
        """The whole answer is ready."""
        if request.has_left:
            if request.delivery is None:
                self._registry.deliver(request, Delivery.NONE)
            return
        request.status = 200
        if self._overheads is not None:
            self._end_late(request, self._overheads.before_last_write())
            return
        if request.slow_delivery is not None:
            request.slow_delivery.end(request.num_output_tokens)
            return
        if request.first_write_at is None:  # an answer in one piece
            self.note_write(request, request.num_output_tokens, 0.0)
        self.end_delivery(request)

    def _end_late(self, request: FleetRequest, seconds: float) -> None:
        if request.late_delivery is None:  # an answer in one piece
            request.late_delivery = LateDelivery(self._timeline, request, PromptDelivery, seconds)
        request.late_delivery.end(request.num_output_tokens, seconds)

    def _open(self, request: FleetRequest) -> AnswerDelivery:
        reading = request.call.caller.client.reading
        return PromptDelivery(request) if reading is None else self._read_slowly(request, reading)

    def _read_slowly(self, request: FleetRequest, reading: Reading) -> SlowDelivery:
        return SlowDelivery(self._timeline, request, reading, self._write_seconds)

    def note_write(self, request: FleetRequest, num_tokens: int, waited: float) -> None:
        """The kernel has a fragment."""
        now = self._timeline.now
        is_first = request.first_write_at is None
        if is_first:
            request.first_write_at = now
            request.status = 200
            if num_tokens > 1:
                request.num_first_written_tokens = num_tokens
        if request.trace is not None:
            request.trace.note(
                EventKind.FIRST_WRITE if is_first else EventKind.WRITE,
                now,
                num_tokens=num_tokens,
                waited_seconds=waited,
            )

    def end_delivery(self, request: FleetRequest) -> None:
        """The kernel has the whole answer."""
        self._registry.deliver(request, Delivery.COMPLETE)

    def lose(self, request: FleetRequest, why: str) -> None:
        """The client left, or counts as gone; what it had not been handed is not delivered."""
        if request.delivery is not None or request.has_left:
            return
        self._registry.leave(request, why)
        if request.ticket is not None:
            self._queue.leave(
                request.ticket, Departure(disposition=Disposition.CANCELLED, reason=why)
            )
            return
        if request.state is not State.QUEUED:  # else nothing can be written yet: with its end
            is_written = request.first_write_at is not None
            self._registry.deliver(request, Delivery.PARTIAL if is_written else Delivery.NONE)
        self._end_early(request)

    def _end_early(self, request: FleetRequest) -> None:
        if request.state is State.FINISHED or request.replica is None:
            return
        request.replica.cancel(request)
        if not request.is_released:
            self._timeline.after(self._release_seconds, request.stop_waiting_for_release)
