"""What passes between the event loop and the engine's thread: commands in, events out."""

from dataclasses import dataclass
from typing import Protocol

from dataplane.engine import EngineRequest
from dataplane.host.wire import RequestEvent
from dataplane.lifecycle import Disposition


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A checked request. `received_at` is on the core's clock."""

    connection_id: int
    request: EngineRequest
    received_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """The end of one request; `reason` and `status_code` go into its FINISHED."""

    connection_id: int
    request_id: str
    disposition: Disposition
    received_at: float
    reason: str | None = None
    status_code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pausing:
    """Who wants a request does not keep up with it, or does again."""

    connection_id: int
    request_id: str
    is_paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """A connection is gone, and so is who wanted its requests."""

    connection_id: int
    received_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shutdown:
    """Return from `run`."""


Command = Submission | Cancellation | Pausing | Departure | Shutdown


@dataclass(frozen=True, slots=True)
class Addressed:
    """An event and the connection that it belongs to."""

    connection_id: int
    item: RequestEvent


class Outbox(Protocol):
    """Where events go. Called from the engine's thread."""

    def __call__(self, batch: list[Addressed], *, waits: bool) -> None:
        """Send a batch; with `waits`, return only when it was handed to the sockets."""
        ...
