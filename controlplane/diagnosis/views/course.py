"""The course of one thing over the window, from a series or from what was told of it."""

import itertools
from collections.abc import Callable

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.views.told import number_of, share_of, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit


def course_of(
    window: Window, signal: Signal, pattern: str = "", *, without: str = ""
) -> Series | None:
    """`signal` where a source has it, otherwise the facts whose keys match: those under the key
    that was told most often, of several the newest. None where nobody has it."""
    series = window.find(signal)
    if series is not None or not pattern:
        return series
    found = [
        fact
        for fact in told_all(window, pattern, without=without)
        if number_of(fact) is not None and fact.quantile is None and fact.part is None
    ]
    if not found:
        return None
    keys = [fact.key for fact in found]
    key = max(reversed(keys), key=keys.count)
    is_share = signal.terms.unit is Unit.RATIO
    values = ((fact, share_of(fact) if is_share else number_of(fact)) for fact in found)
    readings = tuple(
        Reading(fact.at, value, fact.raw)
        for fact, value in values
        if fact.key == key and value is not None
    )
    return Series(
        signal=signal, origin=Origin(kind=SourceKind.GATEWAY, name=key), readings=readings
    )


def rate_of(counter: Series | None, signal: Signal) -> Series | None:
    """Per second between readings of a counter, each at the end of its interval, as a gauge of
    `signal`. None with fewer than two readings."""
    if counter is None:
        return None
    readings = []
    for before, after in itertools.pairwise(counter.readings):
        seconds = after.at - before.at
        if seconds > 0:
            grown = after.value - before.value
            value = (grown if grown >= 0 else after.value) / seconds
            readings.append(Reading(after.at, value, number(value)))
    if not readings:
        return None
    name = f"{counter.origin.name} per second"
    origin = Origin(kind=counter.origin.kind, name=name, place=counter.origin.place)
    return Series(signal=signal, origin=origin, readings=tuple(readings))


def stretch_while(series: Series | None, holds: Callable[[float], bool]) -> Series | None:
    """The newest readings for which it holds without a break; None where the newest does not."""
    if series is None:
        return None
    kept = tuple(
        itertools.takewhile(lambda reading: holds(reading.value), reversed(series.readings))
    )
    if not kept:
        return None
    return Series(
        signal=series.signal,
        origin=series.origin,
        readings=tuple(reversed(kept)),
        labels=series.labels,
    )


def from_on(series: Series | None, start: float) -> Series | None:
    """Its readings from `start` on, with the one before if there is none at it: what a counter
    did since."""
    if series is None:
        return None
    before = series.at(start)
    return series.between(start if before is None else before.at, float("inf"))


def early(series: Series) -> float:
    """The mean over the first quarter of its readings, of the first at least."""
    values = series.values[: max(1, len(series.readings) // 4)]
    return sum(values) / len(values)


def late(series: Series) -> float:
    """The mean over the last quarter of its readings, of the last at least."""
    values = series.values[-max(1, len(series.readings) // 4) :]
    return sum(values) / len(values)


def is_sustained(series: Series | None, least_seconds: float) -> bool:
    """Read at least twice, over so long."""
    return series is not None and len(series.readings) > 1 and series.span_seconds >= least_seconds
