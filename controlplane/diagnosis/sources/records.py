"""Our own records of requests as a window: courses over time, and who sent what to whom.

Records tell what no engine's metrics can: tenants, endings by their reason, attempts, what a client
made us wait for, and how long what ended was still held. A request counts where it arrived; what
was under way at a moment follows from arrivals and ends.
"""

import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence

from controlplane.diagnosis.reading import (
    HistogramReading,
    HistogramSeries,
    Origin,
    Reading,
    Series,
    SourceKind,
)
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.diagnosis.sources.record_facts import facts_of_requests
from controlplane.diagnosis.sources.seen_request import SeenRequest, seen_of
from dataplane.engine_metrics.signal import Signal
from dataplane.lifecycle import Disposition
from dataplane.record import RequestRecord

_MOST_MOMENTS = 120
_SECONDS_BOUNDS = (
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0,
    30.0, 60.0, 120.0, 300.0, math.inf,
)  # fmt: skip


def part_of_records(
    records: Iterable[RequestRecord], start: float, end: float, step_seconds: float = 5.0
) -> Part:
    """Of requests that were under way between two Unix times."""
    seen = sorted(
        (each for each in map(seen_of, records) if each.arrived <= end and each.delivered >= start),
        key=lambda each: each.arrived,
    )
    if not seen:
        return Part(start=start, end=end)
    moments = _moments(start, end, step_seconds)
    return Part(
        series=tuple(itertools.chain(_courses(seen, moments), _by_replica(seen, moments))),
        histograms=tuple(_latencies(seen, moments)),
        facts=facts_of_requests([each for each in seen if each.arrived >= start], end - start, end),
        start=start,
        end=end,
    )


def _moments(start: float, end: float, step_seconds: float) -> list[float]:
    step = max(step_seconds, (end - start) / _MOST_MOMENTS)
    number = max(1, round((end - start) / step))
    return [start + (end - start) * index / number for index in range(number + 1)]


# --- courses ------------------------------------------------------------------------------
def _courses(seen: Sequence[SeenRequest], moments: Sequence[float]) -> Iterable[Series]:
    arrivals = [each.arrived for each in seen]
    finished = sorted(each.finished for each in seen)
    delivered = sorted(each.delivered for each in seen)
    began = sorted(each.scheduled or each.finished for each in seen)
    yield _series(Signal.GATEWAY_ARRIVED, "requests arrived", moments, _counter(arrivals))
    yield _series(
        Signal.GATEWAY_IN_FLIGHT, "requests in flight", moments, _between(arrivals, finished)
    )
    yield _series(Signal.GATEWAY_QUEUED, "requests queued", moments, _between(arrivals, began))
    yield _series(
        Signal.GATEWAY_UNDELIVERED,
        "requests not delivered",
        moments,
        _between(arrivals, delivered),
    )
    for disposition in Disposition:
        ends = sorted(e.finished for e in seen if e.record.disposition is disposition)
        if ends:
            yield _series(
                Signal.GATEWAY_ENDED,
                f"requests ended by {disposition.value}",
                moments,
                _counter(ends),
                {"disposition": disposition.value},
            )
    refused = [e for e in seen if e.record.disposition in (Disposition.REJECTED, Disposition.SHED)]
    for reason in sorted({each.record.reason or "" for each in refused}):
        ends = sorted(e.finished for e in refused if (e.record.reason or "") == reason)
        yield _series(
            Signal.GATEWAY_REJECTED,
            "requests rejected",
            moments,
            _counter(ends),
            {"reason": reason} if reason else {},
        )


def _by_replica(seen: Sequence[SeenRequest], moments: Sequence[float]) -> Iterable[Series]:
    """What each replica had at once, by the last attempt of each request."""
    placed = [each for each in seen if each.record.replica_ids and each.scheduled is not None]
    replicas = sorted({each.record.replica_ids[-1] for each in placed})
    for replica in replicas if len(replicas) > 1 else ():
        own = [each for each in placed if each.record.replica_ids[-1] == replica]
        course = _between(
            sorted(each.scheduled or each.arrived for each in own),
            sorted(each.finished for each in own),
        )
        yield _series(
            Signal.RUNNING, "requests on the replica", moments, course, {"replica": replica}
        )


_Course = Callable[[float], float]


def _counter(times: Sequence[float]) -> _Course:
    return lambda moment: float(bisect_right(times, moment))


def _between(begins: Sequence[float], ends: Sequence[float]) -> _Course:
    """So many have begun and not ended. Both in time order."""
    return lambda moment: float(bisect_right(begins, moment) - bisect_right(ends, moment))


def _series(
    signal: Signal,
    name: str,
    moments: Sequence[float],
    course: _Course,
    labels: Mapping[str, str] | None = None,
) -> Series:
    values = [(moment, course(moment)) for moment in moments]
    return Series(
        signal=signal,
        origin=Origin(kind=SourceKind.RECORDS, name=name),
        readings=tuple(Reading(at, value, plain_number(value)) for at, value in values),
        labels=labels or {},
    )


# --- latencies ----------------------------------------------------------------------------
def _latencies(seen: Sequence[SeenRequest], moments: Sequence[float]) -> Iterable[HistogramSeries]:
    """Each value counts from when its request ended."""
    told: dict[Signal, tuple[str, list[tuple[float, float]]]] = {
        Signal.GATEWAY_QUEUE_TIME: ("queue time", []),
        Signal.GATEWAY_TTFT: ("TTFT", []),
        Signal.GATEWAY_TPOT: ("TPOT", []),
        Signal.GATEWAY_E2E: ("E2E", []),
        Signal.PREFILL_TIME: ("scheduled until first token", []),
    }
    for each in seen:
        latencies = each.record.latencies
        values = {
            Signal.GATEWAY_QUEUE_TIME: latencies.queue_time,
            Signal.GATEWAY_TTFT: latencies.server.ttft,
            Signal.GATEWAY_TPOT: latencies.server.tpot,
            Signal.GATEWAY_E2E: latencies.server.e2e,
            Signal.PREFILL_TIME: _difference(each.first_token, each.scheduled),
        }
        for signal, value in values.items():
            if value is not None:
                told[signal][1].append((each.delivered, value))
    for signal, (name, values_at) in told.items():
        if values_at:
            yield _histogram(signal, name, sorted(values_at), moments)


def _difference(later: float | None, earlier: float | None) -> float | None:
    return None if later is None or earlier is None else max(0.0, later - earlier)


def _histogram(
    signal: Signal, name: str, told: Sequence[tuple[float, float]], moments: Sequence[float]
) -> HistogramSeries:
    counts, total, place = [0.0] * len(_SECONDS_BOUNDS), 0.0, 0
    readings = []
    for moment in moments:
        while place < len(told) and told[place][0] <= moment:
            value = told[place][1]
            total += value
            for index, bound in enumerate(_SECONDS_BOUNDS):
                counts[index] += value <= bound
            place += 1
        readings.append(HistogramReading(moment, _SECONDS_BOUNDS, tuple(counts), total, counts[-1]))
    return HistogramSeries(
        signal=signal,
        origin=Origin(kind=SourceKind.RECORDS, name=name),
        readings=tuple(readings),
    )
