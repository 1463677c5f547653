"""The course of one thing over the window, from a series or from what was told of it."""

import itertools
import re
import statistics
from collections.abc import Callable

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.views.counted_at_end import between_ends, is_told_by_ends
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all
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
    key = _of_the_whole([fact.key for fact in found])
    is_share = signal.terms.unit is Unit.RATIO
    whole = None if is_share else _added_up(found, key)
    if whole is not None:
        return Series(signal=signal, origin=_told_as(whole[0]), readings=whole[1])
    values = ((fact, share_of(fact) if is_share else number_of(fact)) for fact in found)
    readings = tuple(
        Reading(fact.at, value, fact.raw)
        for fact, value in values
        if fact.key == key and value is not None
    )
    return Series(signal=signal, origin=_told_as(key), readings=readings)


def _told_as(name: str) -> Origin:
    return Origin(kind=SourceKind.GATEWAY, name=name)


def _of_the_whole(keys: list[str]) -> str:
    """Told most often; of several the one that says least besides, since `in_flight` is of all and
    `in_flight_rank_3` of one; of those the newest."""
    most = max(keys.count(key) for key in keys)
    often = [key for key in reversed(keys) if keys.count(key) == most]
    return min(often, key=lambda key: len(plain(key).split()))


_PLACE = re.compile(
    r"\b(?:(?:dp|tp|pp|gpu|rank|pod|worker|replica|engine|node|server|instance|shard|card)"
    r"(?: ?(?:rank|id))? ?(?:\d+|[a-z])|[pdw]\d{1,2})\b"
)


def _added_up(found: list[Fact], key: str) -> tuple[str, tuple[Reading, ...]] | None:
    """Where it is told for each place and not for all, the sum at each time at which all were told;
    None elsewhere."""
    stem = _PLACE.sub("*", plain(key))
    if "*" not in stem:
        return None
    siblings = [fact for fact in found if _PLACE.sub("*", plain(fact.key)) == stem]
    keys = dict.fromkeys(fact.key for fact in siblings)
    if len(keys) < 2:
        return None
    readings = []
    for at in sorted({fact.at for fact in siblings}):
        values = {fact.key: number_of(fact) or 0.0 for fact in siblings if fact.at == at}
        if len(values) == len(keys):
            whole = sum(values.values())
            readings.append(Reading(at, whole, number(whole)))
    return (" + ".join(keys), tuple(readings)) if readings else None


def rate_of(counter: Series | None, signal: Signal, window: Window) -> Series | None:
    """Per second between readings of a counter, each at the end of its interval, as a gauge of
    `signal`; of one that moves when a request ends between ends with several between. None with
    fewer than two readings, or too few ends."""
    how = ""
    if counter is not None and is_told_by_ends(counter, window):
        counter, how = between_ends(counter, window), _BETWEEN_ENDS
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
    name = f"{counter.origin.name} per second{how}"
    origin = Origin(kind=counter.origin.kind, name=name, place=counter.origin.place)
    return Series(signal=signal, origin=origin, readings=tuple(readings))


_BETWEEN_ENDS = " (counted when a request ends, so over several ends)"


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


def mostly_of_late(series: Series) -> float:
    """The median over the last half of its readings: a moment between two steps, in which a seat
    or two is free, does not weigh as much as it does in a mean."""
    return statistics.median(series.values[-max(1, len(series.readings) // 2) :])


def is_sustained(series: Series | None, least_seconds: float) -> bool:
    """Read at least twice, over so long."""
    return series is not None and len(series.readings) > 1 and series.span_seconds >= least_seconds
