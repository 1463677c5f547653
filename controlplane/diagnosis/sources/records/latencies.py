"""What requests took, as histograms that grow when they end."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from controlplane.diagnosis.reading import HistogramReading, HistogramSeries
from controlplane.diagnosis.sources.records.ended_request import EndedRequest
from controlplane.diagnosis.sources.records.ending_series import by_records
from controlplane.diagnosis.sources.records.span import Span
from controlplane.store.latency_buckets import bucket_of, upper_bound
from dataplane.engine_metrics.signal import Signal

_NUM_STATES = 24
_MEASURED: tuple[tuple[Signal, str, Callable[[EndedRequest], float | None]], ...] = (
    (Signal.GATEWAY_QUEUE_TIME, "time until engine work began", lambda each: each.scheduled),
    (Signal.GATEWAY_TTFT, "TTFT at the contract's boundary", lambda each: each.ttft),
    (Signal.GATEWAY_TPOT, "TPOT at the contract's boundary", lambda each: each.tpot),
    (Signal.GATEWAY_E2E, "E2E at the contract's boundary", lambda each: each.e2e),
    (Signal.GATEWAY_LONGEST_GAP, "longest gap in an answer", lambda each: each.max_gap),
)


def latencies_of(
    requests: Sequence[EndedRequest], span: Span, place: str
) -> Iterator[HistogramSeries]:
    """Nothing of what no record tells, nor of requests whose end nobody saw: it is not known when
    what they took was known."""
    for signal, name, measured in _MEASURED:
        told = sorted(
            (each.arrived_at + each.lasted, seconds)
            for each in requests
            if each.lasted is not None and (seconds := measured(each)) is not None
        )
        if told:
            origin = by_records(name, place)
            readings = tuple(_states(told, span))
            yield HistogramSeries(signal=signal, origin=origin, readings=readings)


def _states(told: Sequence[tuple[float, float]], span: Span) -> Iterator[HistogramReading]:
    """Of (when it was known, seconds), from nothing on."""
    buckets = [bucket_of(seconds) for _, seconds in told]
    first, last = min(buckets), max(buckets)
    bounds = (*(upper_bound(number) for number in range(first, last + 1)), math.inf)
    counts = [0] * (last - first + 1)
    total, place = 0.0, 0
    for number in range(_NUM_STATES + 1):
        at = span.start + (span.end - span.start) * number / _NUM_STATES
        until = math.inf if number == _NUM_STATES else at
        while place < len(told) and told[place][0] <= until:
            counts[buckets[place] - first] += 1
            total += told[place][1]
            place += 1
        reached = tuple(float(count) for count in itertools.accumulate(counts))
        yield HistogramReading(at, bounds, (*reached, float(place)), total, float(place))
