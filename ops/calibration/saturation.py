"""How much a replica can do: the pace while every slot is taken and others wait."""

from collections.abc import Sequence

from dataplane.lifecycle import EventKind, find_event
from dataplane.record import RequestRecord


def measure_saturation(records: Sequence[RequestRecord], num_slots: int) -> float:
    """Requests a second, from a crowd that came at once.

    Counted in output tokens, from when the last slot was taken until the last request left the
    queue: meanwhile the house is full, and as much work comes in as goes out. Raises ValueError
    for a crowd that does not fill it.
    """
    if len(records) <= num_slots + 1:
        raise ValueError(f"{len(records)} requests do not fill {num_slots} slots and a queue")
    base = min(record.arrived_at_unix_ns for record in records)
    scheduled, selected = [], []
    for record in records:
        offset = (record.arrived_at_unix_ns - base) / 1e9
        begun = find_event(record.events, EventKind.SCHEDULED)
        if begun is not None:
            scheduled.append(offset + begun.at)
        selected += [
            offset + event.at
            for event in record.events
            if event.kind in (EventKind.FIRST_TOKEN, EventKind.TOKENS)
        ]
    scheduled.sort()
    start, end = scheduled[num_slots - 1], scheduled[-1]
    num_tokens = sum(start < at <= end for at in selected)
    mean_output = len(selected) / len(records)
    return num_tokens / (end - start) / mean_output
