"""How findings cite what they saw: the name and the figures as they stand at their source."""

import math
from collections.abc import Sequence
from dataclasses import replace

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import HistogramSeries, Reading, Series, SourceKind
from controlplane.diagnosis.verdict import Cited
from controlplane.diagnosis.window import Change, Window


def moved(series: Series) -> str:
    """`vllm:num_preemptions_total 371 -> 603 in 60 s`; one reading stands as it is."""
    if len(series.readings) == 1:
        return f"{series.origin.name} {series.last.raw}"
    span = seconds(series.span_seconds)
    return f"{series.origin.name} {series.first.raw} -> {series.last.raw} in {span} s"


def course(series: Series, most: int = 8) -> str:
    """All readings of a short series, or as many as `most` of a long one, ends included:
    `Waiting 43, 42, 33, 23, 23`."""
    raws = (reading.raw for reading in shown(series.readings, most))
    return f"{series.origin.name} {', '.join(raws)}"


def shown(readings: Sequence[Reading], most: int = 8) -> tuple[Reading, ...]:
    """Those of `course`."""
    if len(readings) <= most:
        return tuple(readings)
    step = (len(readings) - 1) / (most - 1)
    return tuple(readings[round(index * step)] for index in range(most))


def stands(series: Series) -> str:
    """`vllm:num_requests_running 2 for 300 s`."""
    return f"{series.origin.name} {series.last.raw} for {seconds(series.span_seconds)} s"


def says(fact: Fact) -> str:
    """`in_flight 61`."""
    return f"{fact.key} {fact.raw}"


def changed(window: Window, change: Change) -> str:
    """`30 s: restarted`; on a Unix clock, which nobody reads, from the end of the window."""
    if change.at < _UNIX_SECONDS:
        return f"{change.at:g} s: {change.what}"
    ago = window.end - change.at
    when = f"{seconds(ago)} s before" if ago >= 0 else f"{seconds(-ago)} s after"
    return f"{when} the end: {change.what}"


_UNIX_SECONDS = 1e8
"""No window of relative times is three years long."""


def number(value: float) -> str:
    """As people write it: `1234567`, `0.25`, `3.9`; four significant digits below a thousand."""
    if not math.isfinite(value):
        return "beyond any number"
    if value == round(value) and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def seconds(value: float) -> str:
    """A duration: `0.25`, `12.5`, `300`. Nobody reads the fractions of a long one."""
    return (
        f"{value:.3g}" if value < 1 else f"{value:.0f}" if value >= 60 else f"{round(value, 1):g}"
    )


BESIDES = ("seen besides: ", "told besides: ", "known besides: ")
"""How sentences begin of what stood there as well, and decided nothing."""


def cited_series(window: Window, series: Series) -> Cited:
    """The newest value of `series`."""
    return Cited(
        signal=series.signal.value,
        value=series.last.value,
        unit=series.signal.terms.unit.value,
        source=series.origin.kind,
        name=series.origin.name,
        raw=series.last.raw,
        place=_place(series),
        at=series.last.at,
        age_seconds=window.age_seconds(series.last),
    )


def cited_reading(window: Window, like: Cited, reading: Reading) -> Cited:
    """Another reading of what `like` is one of."""
    return replace(
        like,
        value=reading.value,
        raw=reading.raw,
        at=reading.at,
        age_seconds=window.age_seconds(reading),
    )


def _place(series: Series) -> str:
    """`10.0.0.7:8000`, `10.0.0.7:8000 rank 1`; empty where there is one."""
    replica, rank = series.labels.get("replica", ""), series.labels.get("engine", "")
    return f"{replica} rank {rank}".strip() if rank else replica


def cited_histogram(window: Window, histogram: HistogramSeries, value: float) -> Cited:
    """A mean or a percentile of `histogram`."""
    last = histogram.readings[-1]
    return Cited(
        signal=histogram.signal.value,
        value=value,
        unit=histogram.signal.terms.unit.value,
        source=histogram.origin.kind,
        name=histogram.origin.name,
        at=last.at,
        age_seconds=window.age_seconds(last),
    )


def cited_fact(window: Window, fact: Fact) -> Cited | None:
    """A fact that is a number; None for one that is not."""
    if fact.value is None:
        return None
    return Cited(
        signal=fact.key,
        value=fact.value,
        unit=fact.unit.value if fact.unit is not None else "",
        source=SourceKind.METRICS if fact.place else SourceKind.GATEWAY,
        name=fact.key,
        raw=fact.raw,
        place=fact.place,
        at=fact.at,
        age_seconds=window.age_seconds(fact),
    )
