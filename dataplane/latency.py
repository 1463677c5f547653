"""Latencies of one request. Pure arithmetic over events.

A latency always names its boundary. With `a` the arrival of the request's first byte,
`t_j` the time output token j passes the boundary, and O output tokens::

    TTFT = t_1 - a     TPOT = (t_O - t_1) / (O - 1), undefined for O = 1
    E2E  = t_O - a     queue time = a until engine work begins

The *first answer* of a reasoning model is the first token that is no reasoning, seen where its
engine sets the two apart; otherwise it is the first token. An answer that was all reasoning has
none.
At `engine` a token passes when it is selected, at `server` when the fragment holding it
is written, at `client` when the client says it has it. Several tokens can share one
fragment, so what is measured between writes is `chunk_gap`, never ITL. Of a request with
several sequences (`n > 1`) TTFT is the first token of any and E2E the last; ITL is of one
sequence, and so is TPOT: past the engine O is that of the longest, since all are sent together.
Clocks of two machines are never subtracted: client times count from the client's send.
"""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from dataplane.lifecycle import AnswerPart, Delivery, Event, EventKind


class Boundary(StrEnum):
    """Where a latency is measured."""

    ENGINE = "engine"
    SERVER = "server"
    CLIENT = "client"


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundaryLatencies:
    """Seconds at one boundary. None: undefined for this request, or not known."""

    ttft: float | None = None
    first_answer: float | None = None
    """Until the first token that is no reasoning."""
    tpot: float | None = None
    max_gap: float | None = None
    """Longest wait between two tokens (engine) or two chunks (server)."""
    e2e: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Latencies:
    """All latencies of one request, in seconds."""

    queue_time: float | None = None
    engine: BoundaryLatencies = BoundaryLatencies()
    server: BoundaryLatencies = BoundaryLatencies()
    client: BoundaryLatencies = BoundaryLatencies()
    first_content_transit: float | None = None
    """First token selected until the client has its text; only inside a known clock error."""
    deferred_cleanup: float | None = None
    """Finished until released."""

    def at(self, boundary: Boundary) -> BoundaryLatencies:
        """The latencies at `boundary`."""
        by_boundary: dict[Boundary, BoundaryLatencies] = {
            Boundary.ENGINE: self.engine,
            Boundary.SERVER: self.server,
            Boundary.CLIENT: self.client,
        }
        return by_boundary[boundary]


class ReportedTimes(Protocol):
    """What `derive_latencies` needs of a client's report (see dataplane.record.ClientReport)."""

    @property
    def first_content(self) -> float | None: ...
    @property
    def first_answer(self) -> float | None: ...
    @property
    def final_content(self) -> float | None: ...
    @property
    def clock_error(self) -> float | None: ...
    @property
    def max_chunk_gap(self) -> float | None: ...


def derive_latencies(
    events: Sequence[Event], num_output_tokens: int | None, client: ReportedTimes | None = None
) -> Latencies:
    """Derive every latency of a request from its events.

    `num_output_tokens` counts the tokens the engine selected; None: nobody knows. A request
    without a first token has no TTFT anywhere; one without a finished delivery has no server E2E.
    """
    by_kind = _by_kind(events)
    streams = _streams(by_kind)
    counts = _counts(streams, num_output_tokens)
    longest = _longest(counts) if streams else num_output_tokens
    return Latencies(
        queue_time=_at(_first(by_kind, EventKind.SCHEDULED)),
        engine=_at_engine(streams, counts),
        server=_at_server(by_kind, num_output_tokens, longest),
        client=client_latencies(client, longest),
        first_content_transit=_transit(_first(by_kind, EventKind.FIRST_TOKEN), client),
        # A request of several sequences ends with the last of them.
        deferred_cleanup=_between(
            _last(by_kind, EventKind.FINISHED), _first(by_kind, EventKind.RELEASED)
        ),
    )


def with_client(
    latencies: Latencies,
    events: Sequence[Event],
    num_output_tokens: int | None,
    client: ReportedTimes,
) -> Latencies:
    """Those of a record, with what its client reported later.

    The others are not derived anew: a record may hold fewer events than they were derived from.
    """
    first_token = next((e for e in events if e.kind is EventKind.FIRST_TOKEN), None)
    return dataclasses.replace(
        latencies,
        client=client_latencies(client, _num_tokens_of_longest(events, num_output_tokens)),
        first_content_transit=_transit(first_token, client),
    )


def _num_tokens_of_longest(events: Sequence[Event], num_output_tokens: int | None) -> int | None:
    counts = _counts(_streams(_by_kind(events)), num_output_tokens)
    return _longest(counts) if counts else num_output_tokens


_ByKind = Mapping[EventKind, Sequence[Event]]


def _by_kind(events: Sequence[Event]) -> _ByKind:
    """All of them in one pass, in their order: a long answer has thousands."""
    by_kind: dict[EventKind, list[Event]] = {}
    for event in events:
        if (of_kind := by_kind.get(event.kind)) is None:
            by_kind[event.kind] = [event]
        else:
            of_kind.append(event)
    return by_kind


def _first(by_kind: _ByKind, kind: EventKind) -> Event | None:
    of_kind = by_kind.get(kind)
    return of_kind[0] if of_kind else None


def _last(by_kind: _ByKind, kind: EventKind) -> Event | None:
    of_kind = by_kind.get(kind)
    return of_kind[-1] if of_kind else None


def _at(event: Event | None) -> float | None:
    return None if event is None else event.at


def _between(start: Event | None, end: Event | None) -> float | None:
    return None if start is None or end is None else end.at - start.at


def _transit(first_token: Event | None, client: ReportedTimes | None) -> float | None:
    if first_token is None or client is None or client.clock_error is None:
        return None
    return None if client.first_content is None else client.first_content - first_token.at


def _streams(by_kind: _ByKind) -> list[list[Event]]:
    """The selections of each sequence that selected anything; its first one comes first."""
    selected: dict[int, list[Event]] = {}
    for kind in (EventKind.FIRST_TOKEN, EventKind.TOKENS):
        for event in by_kind.get(kind, ()):
            selected.setdefault(event.sequence, []).append(event)
    return list(selected.values())


def _counts(streams: Sequence[Sequence[Event]], num_output_tokens: int | None) -> list[int | None]:
    """Tokens of each sequence; None where its events do not say."""
    if len(streams) < 2:
        return [num_output_tokens] * len(streams)
    return [_num_selected(stream) for stream in streams]


def _longest(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return max(known, default=0) if len(known) == len(counts) else None


def _at_engine(
    streams: Sequence[Sequence[Event]], counts: Sequence[int | None]
) -> BoundaryLatencies:
    """Gaps and TPOT are of one sequence at a time; of several, the slowest counts."""
    if not streams:
        return BoundaryLatencies()
    tpots = [
        _tpot(stream[0].at, stream[-1].at, num_tokens)
        for stream, num_tokens in zip(streams, counts, strict=True)
    ]
    return BoundaryLatencies(
        ttft=min(stream[0].at for stream in streams),
        first_answer=_first_answer(streams),
        tpot=max((tpot for tpot in tpots if tpot is not None), default=None),
        max_gap=max((gap for stream in streams for gap in _gaps(stream)), default=None),
        e2e=max(stream[-1].at for stream in streams),
    )


def _first_answer(streams: Sequence[Sequence[Event]]) -> float | None:
    """The earliest, of events in which reasoning and answers begin, each stream in its order."""
    begun = (_answer_begins(stream) for stream in streams)
    return min((at for at in begun if at is not None), default=None)


def _answer_begins(stream: Sequence[Event]) -> float | None:
    if stream[0].begins is not AnswerPart.REASONING:
        return stream[0].at
    return next((event.at for event in stream if event.begins is AnswerPart.ANSWER), None)


def _num_selected(stream: Sequence[Event]) -> int | None:
    """Tokens of one sequence; None when an event does not say how many it brought."""
    counts = [
        event.num_tokens if event.kind is EventKind.TOKENS else event.num_tokens or 1
        for event in stream
    ]
    return None if None in counts else sum(count for count in counts if count is not None)


def _at_server(
    by_kind: _ByKind, num_output_tokens: int | None, longest: int | None
) -> BoundaryLatencies:
    """Only an answer that was delivered whole has an end, and only one in parts a pace."""
    writes = [*by_kind.get(EventKind.FIRST_WRITE, ()), *by_kind.get(EventKind.WRITE, ())]
    if not writes:
        return BoundaryLatencies()
    first = writes[0]
    is_whole = (
        first.num_tokens is not None
        and num_output_tokens is not None
        and first.num_tokens >= num_output_tokens
    )
    end = next(
        (e.at for e in by_kind.get(EventKind.LAST_WRITE, ()) if e.delivery is Delivery.COMPLETE),
        None,
    )
    return BoundaryLatencies(
        ttft=first.at,
        first_answer=_answer_begins(writes),
        tpot=None if is_whole else _tpot(first.at, end, longest),
        max_gap=max(_gaps(writes), default=None),
        e2e=end,
    )


def _gaps(events: Sequence[Event]) -> list[float]:
    return [later.at - earlier.at for earlier, later in itertools.pairwise(events)]


def client_latencies(
    client: ReportedTimes | None, num_output_tokens: int | None
) -> BoundaryLatencies:
    """What the client saw, from its own durations alone; all unknown where it told nothing.

    `num_output_tokens` is of the longest sequence.
    """
    if client is None:
        return BoundaryLatencies()
    # An answer that came in one piece has no pace.
    is_whole = client.first_content == client.final_content
    return BoundaryLatencies(
        ttft=client.first_content,
        first_answer=client.first_answer,
        tpot=(
            None
            if is_whole
            else _tpot(client.first_content, client.final_content, num_output_tokens)
        ),
        max_gap=client.max_chunk_gap,
        e2e=client.final_content,
    )


def _tpot(first: float | None, last: float | None, num_output_tokens: int | None) -> float | None:
    if first is None or last is None or num_output_tokens is None or num_output_tokens < 2:
        return None
    return (last - first) / (num_output_tokens - 1)
