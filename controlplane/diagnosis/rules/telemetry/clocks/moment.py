"""A moment as somebody wrote it down, and how far two of them are apart."""

from datetime import UTC, datetime
from enum import Enum, auto
from typing import NamedTuple

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.clock import seconds_of_day
from controlplane.diagnosis.views.told import number_of
from dataplane.engine_metrics.signal import Unit

_MOMENTS_FROM = 1000.0
"""Seconds since some start of a clock: less is a duration, whatever it is called."""
_DAY = 86400.0
_ZONES = 900.0
"""Seconds: time zones differ by whole quarters of an hour."""
_ZONES_WITHIN = 5.0
"""Seconds that may pass between two moments of one request beside that."""


class Scale(Enum):
    """What a moment is counted from. Only those of one scale can be compared."""

    STEADY = auto()
    """Some start of a clock, the year 1970 or a process."""
    ZONED = auto()
    """A date whose zone is written."""
    NAIVE = auto()
    """A date of nobody knows which zone."""
    TIME_OF_DAY = auto()
    """It begins again at midnight."""


class Moment(NamedTuple):
    """Seconds on a scale."""

    scale: Scale
    seconds: float


def moment_of(fact: Fact) -> Moment | None:
    """Of a date, a time of day, or seconds since a clock's start; None for anything else."""
    if fact.value is None:
        return _written(fact.raw)
    value = number_of(fact)
    is_time = fact.unit in (Unit.SECONDS, Unit.UNIX_SECONDS, None)
    if not is_time or value is None or value < _MOMENTS_FROM:
        return None
    return Moment(Scale.STEADY, value)


def between(one: Moment, two: Moment) -> float | None:
    """Seconds from `one` to `two`, below zero where it is the later one; None where they cannot be
    compared, or where only their zones make the difference."""
    if one.scale is not two.scale:
        return None
    apart = two.seconds - one.seconds
    if one.scale is Scale.TIME_OF_DAY:
        apart = (apart + _DAY / 2) % _DAY - _DAY / 2
    is_zoned = one.scale in (Scale.NAIVE, Scale.TIME_OF_DAY)
    if is_zoned and abs(apart) >= _ZONES - _ZONES_WITHIN:
        beside = (apart + _ZONES / 2) % _ZONES - _ZONES / 2
        if abs(beside) <= _ZONES_WITHIN:
            return None
    return apart


def _written(raw: str) -> Moment | None:
    text = raw.strip().replace("Z", "+00:00")
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        of_day = seconds_of_day(text)
        return None if of_day is None else Moment(Scale.TIME_OF_DAY, of_day)
    if date.tzinfo is not None:
        return Moment(Scale.ZONED, date.timestamp())
    return Moment(Scale.NAIVE, date.replace(tzinfo=UTC).timestamp())
