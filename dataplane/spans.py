"""The intervals of a request's life, read from its events: what every waterfall draws.

Console, terminal, API and OpenTelemetry all take their spans from here. Which event opens
and which closes an interval::

    request    arrived ............................................... last_write
    queue      arrived ... scheduled
    prefill                scheduled ... first_token
    decode                               first_token ... finished
    delivery                               first_write ............... last_write
    cleanup                                              finished ............. released

An end that a request never reached closes what is open (a rejected request has a `queue`
that ends with the rejection). Where the client reports its times and says how far its clock
may be off, `request` and `delivery` are the client's, and `first_content_transit` spans
from the first token's selection to its arrival there; without a declared error no client
time is ever put beside a server time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dataplane import names
from dataplane.latency import Boundary
from dataplane.lifecycle import Event, EventKind, Observability
from dataplane.record import ClientReport, RequestRecord

_TERMINAL_KINDS = frozenset({EventKind.FINISHED, EventKind.INVALID, EventKind.REJECTED})
_TRUST = (Observability.OBSERVED, Observability.INFERRED, Observability.UNOBSERVABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanInterval:
    """One span. Times are seconds since the request's arrival.

    `end` is None while it is still unknown: the request lives, was lost, or leaks.
    `start_error` and `end_error` bound how much later than said each may have been.
    """

    name: str
    start: float
    end: float | None
    observability: Observability
    """The weaker of how start and end are known."""
    boundary: Boundary
    start_error: float = 0.0
    end_error: float = 0.0

    @property
    def seconds(self) -> float | None:
        """How long it took, None while that is unknown."""
        return None if self.end is None else self.end - self.start


def span_intervals(record: RequestRecord) -> tuple[SpanInterval, ...]:
    """The spans of a finished request, in the order of `names.SPAN_NAMES`, transit last.

    A span that never opened is left out; so is a cleanup nobody can observe.
    """
    return intervals_of(record.events, record.client, record.cleanup_observability)


def intervals_of(
    events: Sequence[Event],
    client: ClientReport | None = None,
    cleanup: Observability = Observability.OBSERVED,
) -> tuple[SpanInterval, ...]:
    """As `span_intervals`, of a request that may still live."""
    marks = _Marks(events)
    found = (
        _request(marks, client),
        _between(names.SPAN_QUEUE, Boundary.SERVER, marks.arrived, marks.queue_end),
        _between(names.SPAN_PREFILL, Boundary.ENGINE, marks.scheduled, marks.prefill_end),
        _between(names.SPAN_DECODE, Boundary.ENGINE, marks.first_token, marks.finished),
        _delivery(marks, client),
        _cleanup(marks, cleanup),
        _transit(marks, client),
    )
    return tuple(interval for interval in found if interval is not None)


class _Marks:
    """The events that open and close intervals."""

    def __init__(self, events: Sequence[Event]) -> None:
        first: dict[EventKind, Event] = {}
        last: dict[EventKind, Event] = {}
        for event in events:
            first.setdefault(event.kind, event)
            last[event.kind] = event
        self.arrived = first.get(EventKind.ARRIVED)
        self.scheduled = first.get(EventKind.SCHEDULED)
        self.first_token = first.get(EventKind.FIRST_TOKEN)
        self.first_write = first.get(EventKind.FIRST_WRITE)
        self.last_write = first.get(EventKind.LAST_WRITE)
        self.released = first.get(EventKind.RELEASED)
        self.finished = last.get(EventKind.FINISHED)  # a request ends with its last sequence
        self.terminal = next((last[kind] for kind in _TERMINAL_KINDS if kind in last), None)
        self.queue_end = self.scheduled or self.terminal
        self.prefill_end = self.first_token or self.finished


def _request(marks: _Marks, client: ClientReport | None) -> SpanInterval | None:
    times = _client_times(client)
    if marks.arrived is None or times is None or times.final_content is None:
        return _between(names.SPAN_REQUEST, Boundary.SERVER, marks.arrived, marks.last_write)
    return _of_client(names.SPAN_REQUEST, 0.0, times.final_content)


def _delivery(marks: _Marks, client: ClientReport | None) -> SpanInterval | None:
    times = _client_times(client)
    if times is None or times.first_content is None or times.final_content is None:
        return _between(names.SPAN_DELIVERY, Boundary.SERVER, marks.first_write, marks.last_write)
    return _of_client(names.SPAN_DELIVERY, times.first_content, times.final_content)


def _cleanup(marks: _Marks, observability: Observability) -> SpanInterval | None:
    is_expected = marks.scheduled is not None and observability is not Observability.UNOBSERVABLE
    if marks.released is None and not is_expected:
        return None
    return _between(names.SPAN_CLEANUP, Boundary.ENGINE, marks.finished, marks.released)


def _transit(marks: _Marks, client: ClientReport | None) -> SpanInterval | None:
    times = _client_times(client)
    if times is None or times.first_content is None or marks.first_token is None:
        return None
    return SpanInterval(
        name=names.SPAN_FIRST_CONTENT_TRANSIT,
        start=marks.first_token.at,
        end=times.first_content,
        observability=marks.first_token.observability,
        boundary=Boundary.CLIENT,
        start_error=marks.first_token.at_error,
        end_error=times.clock_error or 0.0,
    )


def _client_times(client: ClientReport | None) -> ClientReport | None:
    """The report, if its times may stand beside the gateway's."""
    return None if client is None or client.clock_error is None else client


def _of_client(name: str, start: float, end: float) -> SpanInterval:
    return SpanInterval(
        name=name,
        start=start,
        end=end,
        observability=Observability.OBSERVED,
        boundary=Boundary.CLIENT,
    )


def _between(
    name: str, boundary: Boundary, opened_by: Event | None, closed_by: Event | None
) -> SpanInterval | None:
    if opened_by is None:
        return None
    ends = (opened_by,) if closed_by is None else (opened_by, closed_by)
    return SpanInterval(
        name=name,
        start=opened_by.at,
        end=None if closed_by is None else closed_by.at,
        observability=max((event.observability for event in ends), key=_TRUST.index),
        boundary=boundary,
        start_error=opened_by.at_error,
        end_error=0.0 if closed_by is None else closed_by.at_error,
    )
