"""How much a replica can do: the pace while every slot is taken and others wait."""

from collections.abc import Sequence

from dataplane.lifecycle import EventKind, find_event
from dataplane.record import RequestRecord


def measure_saturation(records: Sequence[RequestRecord], num_slots: int) -> float:
    """Requests a second, from a crowd that came at once. Raises ValueError for a crowd that does
    not fill the replica."""
    base = min((record.arrived_at_unix_ns for record in records), default=0)
    scheduled, selected = [], []
    for record in records:
        offset = (record.arrived_at_unix_ns - base) / 1e9
        begun = find_event(record.events, EventKind.SCHEDULED)
        if begun is not None:
            scheduled.append(offset + begun.at)
        selected.append(
            [
                offset + event.at
                for event in record.events
                if event.kind in (EventKind.FIRST_TOKEN, EventKind.TOKENS)
            ]
        )
    return pace_of(scheduled, selected, num_slots)


def pace_of(begun: Sequence[float], tokens: Sequence[Sequence[float]], num_slots: int) -> float:
    """Requests a second, by when each began to be served and when each had its tokens.

    Counted in output tokens, from when the last slot was taken until the last request left the
    queue: meanwhile the house is full, and as much work comes in as goes out. Raises ValueError
    for a crowd that does not fill it.
    """
    if len(tokens) <= num_slots + 1:
        raise ValueError(f"{len(tokens)} requests do not fill {num_slots} slots and a queue")
    ordered = sorted(begun)
    start, end = ordered[num_slots - 1], ordered[-1]
    num_tokens = sum(start < at <= end for each in tokens for at in each)
    mean_output = sum(map(len, tokens)) / len(tokens)
    return num_tokens / (end - start) / mean_output
