"""A bound on how many events of pace a record holds: tokens selected, fragments written.

Sixteen answers of eight thousand tokens are a hundred thousand of them, which would make a
record of ten megabytes that says nothing a reader could see. Beyond the bound, neighbours in
one sequence become one event: at the time of the last, with the sum of what they brought.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from dataplane.lifecycle import Event, EventKind

_KINDS = frozenset({EventKind.TOKENS, EventKind.WRITE})
_Stream = tuple[EventKind, int, int]


def join_pace(events: Sequence[Event], max_events: int) -> tuple[tuple[Event, ...], int]:
    """The events with about `max_events` of pace at most, and how many are gone into others.

    All else stays as it is, and so do order and sums. Gaps do not: derive latencies before.
    """
    if len(events) <= max_events:
        return tuple(events), 0
    num_by_stream = Counter(_stream(event) for event in events if _may_join(event))
    per_group = -(-num_by_stream.total() // max_events)
    if per_group < 2:
        return tuple(events), 0
    kept: list[Event] = []
    open_groups: dict[_Stream, list[Event]] = defaultdict(list)
    for event in events:
        if not _may_join(event):
            kept.append(event)
            continue
        stream = _stream(event)
        group = open_groups[stream]
        group.append(event)
        num_by_stream[stream] -= 1
        if len(group) == per_group or not num_by_stream[stream]:
            kept.append(_join(group))
            group.clear()
    return tuple(kept), len(events) - len(kept)


def _may_join(event: Event) -> bool:
    """When an answer began is told by the one event that it began with."""
    return event.kind in _KINDS and event.begins is None


def _stream(event: Event) -> _Stream:
    return event.kind, event.attempt, event.sequence


def _join(group: Sequence[Event]) -> Event:
    waits = [event.waited_seconds for event in group if event.waited_seconds is not None]
    return msgspec.structs.replace(
        group[-1],
        at_error=max(event.at_error for event in group),
        num_tokens=_sum_known([event.num_tokens for event in group]),
        waited_seconds=sum(waits) if waits else None,
    )


def _sum_known(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None
