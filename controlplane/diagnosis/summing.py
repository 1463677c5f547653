"""Several series of one signal as one: of ranks, replicas, reasons.

Counters are followed over their restarts first and added up then. The other way round, the restart
of one replica would look like work of all the others, and one that is seen later than the others
like a jump. Gauges are added as of one moment; one that was not read for a while is not counted.
"""

import itertools
import math
import statistics
from collections.abc import Iterable, Sequence

from controlplane.diagnosis.reading import (
    HistogramReading,
    HistogramSeries,
    Reading,
    Series,
    without_restarts,
)
from dataplane.engine_metrics.signal import SignalKind

_FRESH_INTERVALS = 4
"""A gauge that was not read for so many of its usual intervals is of somebody who is gone."""
_FRESH_SECONDS = 15.0
"""Whatever its interval."""

Fresh = tuple[Series, float]
"""A series, and for how many seconds a reading of it counts."""


def joined(found: Sequence[Series]) -> Series:
    """The sum at the moments of the one that was read most often; of a ratio, a time or a setting
    the greatest of them, which are counted by nobody twice."""
    lead = max(found, key=lambda series: len(series.readings))
    terms = lead.signal.terms
    moments = _moments(lead.readings)
    if terms.is_whole_greatest:
        fresh = _fresh_seconds_of(found)
        readings = [_greatest(fresh, at, until) for at, until in moments]
    elif terms.kind is SignalKind.COUNTER:
        grown = [_followed(series) for series in found]
        readings = [_total(at, (_then(each, until) for each in grown)) for at, until in moments]
    else:
        fresh = _fresh_seconds_of(found)
        readings = [
            _total(at, (part.value for part in _present(fresh, at, until))) for at, until in moments
        ]
    return Series(signal=lead.signal, origin=lead.origin, readings=tuple(readings))


def joined_histograms(found: Sequence[HistogramSeries]) -> HistogramSeries:
    """The sum of those with the bounds of the first, at the moments of the one that was read most
    often."""
    first = found[0]
    if len(found) == 1:
        return first
    bounds = first.readings[-1].bounds
    alike = [each for each in found if each.readings[-1].bounds == bounds]
    lead = max(alike, key=lambda each: len(each.readings))
    grown = [without_restarts(each.readings) for each in alike]
    return HistogramSeries(
        signal=first.signal,
        origin=first.origin,
        readings=tuple(
            _sum(at, [_state(each, until) for each in grown])
            for at, until in _moments(lead.readings)
        ),
    )


def _moments(
    readings: Sequence[Reading] | Sequence[HistogramReading],
) -> list[tuple[float, float]]:
    """When each was read, and until when what others read belongs to it: half way to the next,
    since no two are read at the same instant."""
    times = [reading.at for reading in readings]
    halves = [(before + after) / 2 for before, after in itertools.pairwise(times)]
    return list(zip(times, [*halves, float("inf")], strict=True))


def _followed(series: Series) -> list[tuple[float, float]]:
    """A counter's course from its first value on, which no restart brings down."""
    total = series.first.value
    course = [(series.first.at, total)]
    for before, after in itertools.pairwise(series.readings):
        total += after.value - before.value if after.value >= before.value else after.value
        course.append((after.at, total))
    return course


def _then(course: Sequence[tuple[float, float]], until: float) -> float:
    """Before it was seen it is taken to have stood where it was seen first."""
    known = course[0][1]
    for at, value in course:
        if at > until:
            break
        known = value
    return known


def _present(found: Sequence[Fresh], moment: float, until: float) -> list[Reading]:
    """Those that were read not long before `moment`."""
    parts = ((fresh_seconds, series.at(until)) for series, fresh_seconds in found)
    return [
        part
        for fresh_seconds, part in parts
        if part is not None and moment - part.at <= fresh_seconds
    ]


def _fresh_seconds_of(found: Sequence[Series]) -> list[Fresh]:
    return [(series, _fresh_seconds(series)) for series in found]


def _fresh_seconds(series: Series) -> float:
    if len(series.readings) < 2:
        return float("inf")
    gaps = [after.at - before.at for before, after in itertools.pairwise(series.readings)]
    return max(_FRESH_SECONDS, _FRESH_INTERVALS * statistics.median(gaps))


def _greatest(found: Sequence[Fresh], moment: float, until: float) -> Reading:
    greatest = max(_present(found, moment, until), key=lambda part: part.value)
    return Reading(moment, greatest.value, greatest.raw)


def _total(moment: float, values: Iterable[float]) -> Reading:
    whole = sum(values)
    is_whole = math.isfinite(whole) and whole == round(whole)
    raw = f"{whole:.15g}" if is_whole else f"{whole:.6g}"
    return Reading(moment, whole, raw)


def _state(grown: Sequence[HistogramReading], until: float) -> HistogramReading:
    known = grown[0]
    for reading in grown:
        if reading.at > until:
            break
        known = reading
    return known


def _sum(moment: float, parts: Sequence[HistogramReading]) -> HistogramReading:
    return HistogramReading(
        moment,
        parts[0].bounds,
        tuple(sum(counts) for counts in zip(*(part.counts for part in parts), strict=True)),
        sum(part.sum for part in parts),
        sum(part.count for part in parts),
    )
