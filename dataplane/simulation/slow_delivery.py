"""Handing an answer to a client that reads slowly, by the gateway's rule.

The gateway writes all that is ready, and waits until the kernel has taken it before it writes
more; the engine does not wait. A client that takes no byte for `write_seconds` is cut off.
"""

from typing import TYPE_CHECKING

from dataplane.simulation.clients import Reading
from dataplane.write_patience import WritePatience

if TYPE_CHECKING:
    from dataplane.simulation.fleet_request import FleetRequest
    from dataplane.simulation.timeline import Timeline


class SlowDelivery:
    """Of one request, from its first token on."""

    __slots__ = (
        "_began_at",
        "_first_at",
        "_is_ended",
        "_num_ready",
        "_num_written",
        "_patience",
        "_reading",
        "_request",
        "_timeline",
        "_writing_to",
    )

    def __init__(
        self, timeline: "Timeline", request: "FleetRequest", reading: Reading, write_seconds: float
    ) -> None:
        self._timeline = timeline
        self._request = request
        self._reading = reading
        self._patience = WritePatience(write_seconds)
        self._first_at = timeline.now
        self._num_ready = 0
        self._num_written = 0
        self._writing_to: int | None = None
        self._began_at = 0.0
        self._is_ended = False

    def put(self, num_tokens: int) -> None:
        """So many tokens may be written, all in all."""
        self._num_ready = num_tokens
        if self._writing_to is None:
            self._write()

    def end(self, num_tokens: int) -> None:
        """There are no more than these."""
        self._num_ready = num_tokens
        self._is_ended = True
        if self._writing_to is None:
            self._write()

    def _write(self) -> None:
        """Begin to write what is ready, until nothing is or the kernel takes no more for now."""
        timeline = self._timeline
        while self._request.delivery is None:
            if self._num_ready == self._num_written:
                if self._is_ended:
                    self._request.gateway.client_side.end_delivery(self._request)
                return
            until = self._reading.seconds_until(self._num_ready)
            self._writing_to, self._began_at = self._num_ready, timeline.now
            if until is None:
                since = timeline.now - self._first_at
                gone_at = self._patience.gone_at(since, self._reading.last_read_at)
                timeline.at(max(timeline.now, self._first_at + gone_at), self._give_up)
                return
            if self._first_at + until > timeline.now:
                timeline.at(self._first_at + until, self._continue)
                return
            self._note_written()

    def _continue(self) -> None:
        if self._request.delivery is None:
            self._note_written()
            self._write()

    def _note_written(self) -> None:
        assert self._writing_to is not None
        num_tokens = self._writing_to - self._num_written
        self._num_written, self._writing_to = self._writing_to, None
        waited = self._timeline.now - self._began_at
        self._request.gateway.client_side.note_write(self._request, num_tokens, waited)

    def _give_up(self) -> None:
        self._request.gateway.client_side.lose(self._request, self._patience.why_gone)
