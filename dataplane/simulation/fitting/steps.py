"""The steps of an engine, put together from the rows of its sequences.

What happened in one step happened at one moment, so rows fall into groups::

    request 1   sched|-----chunk 128-|--chunk 40, first-|-----token-|------token-|
    request 2                              sched|...    |--first----|------token-|
    step                             1                  2           3            4

A row belongs to the step before it when it ends at nearly the same time, measured against how
long either took; a sequence has one row in a step.

Times of different requests are anchored one by one, each up to its error too early (see
`dataplane.gateway.registry.TransitBound`). The steps they share say how much: anchors are
shifted until the rows of each step agree as well as they can, and rows are grouped once more.

A step took from the end of the one before, if a sequence went from that into this. Else it
began when its first sequences were scheduled; where neither was seen, nobody knows.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field

from dataplane.record import RequestRecord
from dataplane.simulation.fitting.rows import Anchor, Blind, Row, read_rows

_SAME_STEP_SHARE = 0.5
_NUM_ALIGNMENTS = 5
_MAX_CLOCK_ERROR = 0.001
"""Seconds that the clocks of two gateways, or of one at two times, may disagree."""


@dataclass(slots=True, eq=False)
class ObservedStep:
    """One step of one replica. Times are in seconds on one clock."""

    rows: list[Row]
    ended_at: float
    began_at: float | None = None
    """None: nobody saw it."""
    is_back_to_back: bool = False
    """The engine came from another step, and `began_at` is the end of that."""
    is_whole: bool = True
    """All that took part in it is known."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None where nobody saw its beginning."""
        return None if self.began_at is None else self.ended_at - self.began_at


@dataclass(slots=True)
class ObservedSteps:
    """Of all replicas, and what could not be used."""

    steps: list[ObservedStep] = field(default_factory=list)
    schedule_gaps: list[float] = field(default_factory=list)
    """Seconds from the end of a step until the next one, which followed at once, was scheduled."""
    shifts: dict[str, float] = field(default_factory=dict)
    """By request: how much later than recorded its engine's events are, in seconds."""
    idle_starts: set[str] = field(default_factory=set)
    """Requests that came to an engine with nothing to do."""
    num_requests: int = 0
    num_missing_requests: int = 0
    """Numbers of requests between those that are known."""
    blind: Counter[str] = field(default_factory=Counter)
    """Why some time is blind, and how many times."""

    @property
    def usable(self) -> list[ObservedStep]:
        """Whole, and seen from beginning to end."""
        return [step for step in self.steps if step.is_whole and (step.seconds or 0.0) > 0.0]


def observe_steps(
    records: Sequence[RequestRecord], replica_ids: Set[str] | None = None
) -> ObservedSteps:
    """Put the steps of these replicas together, or those of all.

    `records` must be of all requests of a time, in any order.
    """
    observed = ObservedSteps(num_requests=len(records))
    if not records:
        return observed
    base = min(record.arrived_at_unix_ns for record in records)
    missing = _find_missing(records, base, observed)
    for replica_id, replica in read_rows(records, base).items():
        if replica_ids is not None and replica_id not in replica_ids:
            continue
        steps = _group_aligned(replica.rows)
        _find_beginnings(steps, observed)
        observed.shifts.update((r.anchor.request_id, r.anchor.shift) for r in replica.rows)
        blind = [*replica.blind, *missing]
        observed.blind.update(each.why for each in blind)
        _mark_blind(steps, blind)
        observed.steps += steps
    return observed


def _group_aligned(rows: list[Row]) -> list[ObservedStep]:
    steps = _group(rows)
    for _ in range(_NUM_ALIGNMENTS):
        _align(steps)
    return _group(rows)


def _group(rows: list[Row]) -> list[ObservedStep]:
    steps: list[ObservedStep] = []
    streams: set[int] = set()
    first, shortest = 0.0, 0.0
    for row in sorted(rows, key=lambda row: row.ended_at):
        took = row.ended - row.since
        is_same = (
            bool(steps)
            and row.stream not in streams
            and row.ended_at - first < _SAME_STEP_SHARE * min(took, shortest)
        )
        if is_same:
            steps[-1].rows.append(row)
            streams.add(row.stream)
            shortest = min(shortest, took)
        else:
            steps.append(ObservedStep([row], row.ended_at))
            streams = {row.stream}
            first, shortest = row.ended_at, took
    for step in steps:
        step.ended_at = statistics.median(row.ended_at for row in step.rows)
    return steps


def _align(steps: list[ObservedStep]) -> None:
    """Shift every anchor to where the steps it takes part in say that it is."""
    offs: dict[Anchor, list[float]] = defaultdict(list)
    for step in steps:
        step.ended_at = statistics.median(row.ended_at for row in step.rows)
        for row in step.rows:
            offs[row.anchor].append(step.ended_at - row.ended)
    for anchor, found in offs.items():
        most = anchor.max_error + _MAX_CLOCK_ERROR
        anchor.shift = min(most, max(-_MAX_CLOCK_ERROR, statistics.median(found)))


def _find_beginnings(steps: list[ObservedStep], observed: ObservedSteps) -> None:
    before: ObservedStep | None = None
    for step in steps:
        scheduled = [row for row in step.rows if row.is_scheduled]
        if before is not None and _continues(step, before):
            step.began_at, step.is_back_to_back = before.ended_at, True
            observed.schedule_gaps += [row.since_at - before.ended_at for row in scheduled]
        elif scheduled:
            step.began_at = statistics.median(row.since_at for row in scheduled)
            idle_since = float("-inf") if before is None else before.ended_at
            observed.idle_starts.update(
                row.anchor.request_id for row in scheduled if row.anchor.arrived_at > idle_since
            )
        before = step


def _continues(step: ObservedStep, before: ObservedStep) -> bool:
    streams = {row.stream for row in before.rows}
    return any(not row.is_scheduled and row.stream in streams for row in step.rows)


def _mark_blind(steps: list[ObservedStep], blind: list[Blind]) -> None:
    """Both are walked through once, in order of time."""
    waiting = sorted(blind, key=lambda each: each.start)
    position, blind_until = 0, float("-inf")
    for step in steps:
        while position < len(waiting) and waiting[position].start < step.ended_at:
            blind_until = max(blind_until, waiting[position].end)
            position += 1
        began_at = step.ended_at if step.began_at is None else step.began_at
        step.is_whole = began_at >= blind_until


def _find_missing(
    records: Sequence[RequestRecord], base: int, observed: ObservedSteps
) -> list[Blind]:
    """While a request that is not here may have run. A gateway numbers them as they arrive."""
    longest = max(max((event.at for event in record.events), default=0.0) for record in records)
    by_gateway: dict[str, dict[int, float]] = defaultdict(dict)
    for record in records:
        at = (record.arrived_at_unix_ns - base) / 1e9
        by_gateway[record.gateway_id][record.gateway_sequence] = at
    blind = []
    for arrivals in by_gateway.values():
        last_number, last_at = -1, float("-inf")
        for number in sorted(arrivals):
            if number > last_number + 1:
                observed.num_missing_requests += number - last_number - 1
                blind.append(
                    Blind(last_at, arrivals[number] + longest, "a request whose record is missing")
                )
            last_number, last_at = number, arrivals[number]
    return blind
