"""Handing an answer over some time after it is ready: what a gateway takes to write.

What is ready before the first write leaves with it. Behind it tokens are written as they come,
and the last write is late again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dataplane.simulation.fleet_request import FleetRequest
    from dataplane.simulation.timeline import Timeline


class AnswerDelivery(Protocol):
    """How the tokens of one answer get to its client."""

    def put(self, num_tokens: int) -> None:
        """So many tokens may be written, all in all."""
        ...

    def end(self, num_tokens: int) -> None:
        """There are no more than these."""
        ...


class PromptDelivery:
    """To a client that takes all at once."""

    __slots__ = ("_num_written", "_request")

    def __init__(self, request: "FleetRequest") -> None:
        self._request = request
        self._num_written = 0

    def put(self, num_tokens: int) -> None:
        """Written at once."""
        num_new = num_tokens - self._num_written
        if num_new > 0:
            self._num_written = num_tokens
            self._request.gateway.client_side.note_write(self._request, num_new, 0.0)

    def end(self, num_tokens: int) -> None:
        """What is left, and the end."""
        self.put(num_tokens)
        self._request.gateway.client_side.end_delivery(self._request)


class LateDelivery:
    """Of one request, from what is ready first; `begin` is how it goes on from the first write."""

    __slots__ = ("_begin", "_first_at", "_num_ready", "_request", "_through", "_timeline")

    def __init__(
        self,
        timeline: "Timeline",
        request: "FleetRequest",
        begin: Callable[["FleetRequest"], AnswerDelivery],
        seconds: float,
    ) -> None:
        self._timeline = timeline
        self._request = request
        self._begin = begin
        self._first_at = timeline.now + seconds
        self._num_ready = 0
        self._through: AnswerDelivery | None = None

    def put(self, num_tokens: int) -> None:
        """So many tokens are ready, all in all."""
        is_first = self._num_ready == 0
        self._num_ready = num_tokens
        if self._through is not None:
            self._through.put(num_tokens)
        elif is_first:
            self._timeline.at(self._first_at, self._open)

    def end(self, num_tokens: int, seconds: float) -> None:
        """There are no more than these, and the last write is so late."""
        self.put(num_tokens)
        self._timeline.at(max(self._first_at, self._timeline.now + seconds), self._end)

    def _open(self) -> None:
        if self._request.delivery is None:
            self._through = self._begin(self._request)
            self._through.put(self._num_ready)

    def _end(self) -> None:
        if self._request.delivery is None:
            assert self._through is not None  # it was put before, and is due no later
            self._through.end(self._num_ready)
