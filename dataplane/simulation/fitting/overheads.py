"""What surrounds the steps: the gateway before them and after them, and the host between."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dataplane.client_waits import client_waits, seconds_of, waits_between
from dataplane.lifecycle import Delivery, EventKind, find_event
from dataplane.record import RequestRecord
from dataplane.simulation.fitting.document import Overheads, Spread
from dataplane.simulation.fitting.steps import ObservedSteps

_ALONE_NS = 50_000_000
_FEW = 10


def spread_of(seconds: Sequence[float]) -> Spread | None:
    """None of nothing."""
    if not seconds:
        return None
    median, p95 = np.percentile(seconds, [50, 95])
    return Spread(
        median=max(0.0, float(median)), p95=max(0.0, float(p95)), num_samples=len(seconds)
    )


def measure_overheads(records: Sequence[RequestRecord], observed: ObservedSteps) -> Overheads:
    """From the records that the steps were observed in."""
    admissions, idle_starts, first_writes, last_writes = [], [], [], []
    alone = _arrived_alone(records)
    for record in records:
        at = {
            kind: event.at
            for kind in EventKind
            if (event := find_event(record.events, kind)) is not None
        }
        # Engine times are aligned with those of the requests they share steps with.
        shift = observed.shifts.get(record.request_id, 0.0)
        admitted = at.get(EventKind.ADMITTED)
        if admitted is not None:
            if record.request_id in alone:
                admissions.append(admitted)
            if record.request_id in observed.idle_starts and EventKind.SCHEDULED in at:
                idle_starts.append(at[EventKind.SCHEDULED] + shift - admitted)
        if {EventKind.FIRST_TOKEN, EventKind.FIRST_WRITE} <= at.keys():
            selected = at[EventKind.FIRST_TOKEN] + shift
            first_writes.append(_to_write(record, selected, at[EventKind.FIRST_WRITE]))
        if record.delivery is Delivery.COMPLETE and EventKind.FINISHED in at:
            finished = at[EventKind.FINISHED] + shift
            last_writes.append(_to_write(record, finished, at[EventKind.LAST_WRITE]))
    return Overheads(
        arrival_to_admission=spread_of(admissions),
        admission_to_idle_engine=spread_of(idle_starts),
        between_steps=spread_of(observed.schedule_gaps),
        selection_to_first_write=spread_of(first_writes),
        finish_to_last_write=spread_of(last_writes),
    )


def _to_write(record: RequestRecord, since: float, until: float) -> float:
    """Seconds in which the client did not make the gateway wait: that is no cost of a request."""
    waited = waits_between(client_waits(record.events), since, until)
    return until - since - seconds_of(waited)


def came_alone(arrivals_unix_ns: Sequence[int]) -> list[bool]:
    """Of arrivals in order of time, those that no other came right before: a crowd waits for
    itself at the door, which is no cost of a request. All of them where hardly any did."""
    alone = [False] * len(arrivals_unix_ns)
    for number, (earlier, later) in enumerate(pairwise(arrivals_unix_ns), 1):
        alone[number] = later - earlier > _ALONE_NS
    return alone if sum(alone) >= _FEW else [True] * len(alone)


def _arrived_alone(records: Sequence[RequestRecord]) -> set[str]:
    ordered = sorted(records, key=lambda record: record.arrived_at_unix_ns)
    alone = came_alone([record.arrived_at_unix_ns for record in ordered])
    return {record.request_id for record, is_alone in zip(ordered, alone, strict=True) if is_alone}
