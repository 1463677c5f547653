"""When the parts of a recorded request happened, on the Unix clock."""

from dataclasses import dataclass

from dataplane.lifecycle import EventKind, find_event
from dataplane.record import RequestRecord

_NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class SeenRequest:
    """One record with the times that count; None where it did not come to that."""

    record: RequestRecord
    arrived: float
    scheduled: float | None
    first_token: float | None
    finished: float
    delivered: float
    released: float | None


def seen_of(record: RequestRecord) -> SeenRequest:
    """What never came to an end counts as ended with its last event."""
    began = record.arrived_at_unix_ns / _NANOSECONDS

    def at(kind: EventKind) -> float | None:
        event = find_event(record.events, kind)
        return None if event is None else began + event.at

    last = began + max((event.at for event in record.events), default=0.0)
    finished = at(EventKind.FINISHED) or at(EventKind.REJECTED) or at(EventKind.INVALID) or last
    return SeenRequest(
        record=record,
        arrived=began,
        scheduled=at(EventKind.SCHEDULED),
        first_token=at(EventKind.FIRST_TOKEN),
        finished=finished,
        delivered=at(EventKind.LAST_WRITE) or finished,
        released=at(EventKind.RELEASED),
    )
