"""How long a client made the gateway wait, from the writes of a request. Pure.

A write is stamped when the kernel has all of it, so its wait lies before it:

    write begins          the kernel has all of it = event.at
    |---- waited_seconds ----|

The end of a whole answer is stamped with the wait of its only write, and the sequences of a
request may be written at once: what overlaps is one wait, not several.
"""

from collections.abc import Iterable

from dataplane.lifecycle import Event

Wait = tuple[float, float]
"""From and until, in seconds since the request's arrival."""


def client_waits(events: Iterable[Event]) -> list[Wait]:
    """When the client made us wait: apart from each other, in order."""
    given = sorted(
        (event.at - event.waited_seconds, event.at) for event in events if event.waited_seconds
    )
    waits: list[Wait] = []
    for start, end in given:
        if waits and start <= waits[-1][1]:
            waits[-1] = (waits[-1][0], max(end, waits[-1][1]))
        else:
            waits.append((start, end))
    return waits


def seconds_of(waits: Iterable[Wait]) -> float:
    """All of them together."""
    return sum(end - start for start, end in waits)


def waits_between(waits: Iterable[Wait], start: float, end: float) -> list[Wait]:
    """What of them lies between `start` and `end`."""
    inside = ((max(start, since), min(end, until)) for since, until in waits)
    return [(since, until) for since, until in inside if since < until]
