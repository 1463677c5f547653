"""Moments that somebody wrote down as a date or a time of day."""

import re
from datetime import datetime

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import plain, told_all
from controlplane.diagnosis.window import Window

_DAY = 86400.0
_TIME_OF_DAY = re.compile(r"(\d{1,2}):(\d{2}):(\d{2}(?:[.,]\d+)?)")


def seconds_of_day(text: str) -> float | None:
    """Of `10:42:07` or `10:42:07,250`; None for anything else."""
    found = _TIME_OF_DAY.fullmatch(text)
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3].replace(",", "."))


def moment_of(raw: str) -> float | None:
    """Seconds of a date or a time of day; None for anything else."""
    text = raw.strip().replace("Z", "+00:00")
    of_day = seconds_of_day(text)
    if of_day is not None:
        return of_day
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def told_span(window: Window, begun: str, ended: str) -> tuple[float, Fact, Fact] | None:
    """From the moment under a key that matches `begun` to that under one that matches `ended`,
    both told as dates or times of day; midnight may be between."""
    starts = _moments(window, begun)
    ends = _moments(window, ended)
    if not starts or not ends:
        return None
    (first, start), (last, end) = starts[0], ends[-1]
    seconds = end - start
    if seconds < 0 and max(start, end) < _DAY:
        seconds += _DAY
    return (seconds, first, last) if seconds > 0 else None


def _moments(window: Window, pattern: str) -> list[tuple[Fact, float]]:
    return [
        (fact, moment)
        for fact in told_all(window, pattern)
        if fact.value is None
        and not re.search(r"\b(zone|format)\b", plain(fact.key))
        and (moment := moment_of(fact.raw)) is not None
    ]
