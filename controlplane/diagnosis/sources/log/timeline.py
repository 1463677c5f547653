"""From the stamps of a log's lines to seconds on one axis."""

import functools
from datetime import UTC, datetime

from controlplane.diagnosis.sources.log.stamp import CALENDAR, LEAP_YEAR, Clock, Stamp

_DAY = 86400.0
_HALF_YEAR = 180 * _DAY
_MONTH = 30 * _DAY
_NEAR = 3600.0


class Timeline:
    """Seconds for each stamp, in the order of the lines.

    All stamps of the calendar go onto one axis: a date without a year takes that of the last line
    that had one, or `year`, and a time without a date its day. A step back by more than half a year
    is a new year's eve, one by more than half a day a midnight. The kernel's and llama.cpp's own
    clocks have an axis each, which cannot be compared with it.
    """

    def __init__(self, year: int | None = None) -> None:
        """`year`: of the first line, where it is known from elsewhere."""
        self._year = year
        self._last: float | None = None
        self._stray: float | None = None
        self.knows_year = year is not None
        self._year_span = (0.0, 0.0, 0)
        """From when until when a year lasts, and which."""
        self.to_unix = 0.0
        """To be added to the calendar's seconds, where `knows_year`, for Unix seconds."""

    def axis(self, stamp: Stamp) -> Clock:
        """DATED for every stamp of the calendar."""
        return Clock.DATED if stamp.clock in CALENDAR else stamp.clock

    def seconds(self, stamp: Stamp) -> float | None:
        """On the axis of `stamp`; None for a date that belongs to the message and not to the line.

        Such is one that lies a day before the line above it or a month after it, unless the next
        one is near it: then an older log was appended, or nothing was written for long.
        """
        if stamp.clock not in CALENDAR:
            return stamp.seconds
        found = self._on_calendar(stamp)
        if self._is_stray(found):
            self._stray = found
            return None
        self._stray = None
        if stamp.clock is Clock.DATED and not self.knows_year:
            self.knows_year = True
            self.to_unix = stamp.seconds - found
        self._last = found
        return found

    def _on_calendar(self, stamp: Stamp) -> float:
        match stamp.clock:
            case Clock.YEARLESS:
                return self._with_year(stamp.seconds)
            case Clock.TIME_OF_DAY:
                return self._with_day(stamp.seconds)
            case _ if self._last is None or self.knows_year:
                return stamp.seconds - self.to_unix
            case _:
                return _in_leap_year(stamp.seconds)

    def _is_stray(self, found: float) -> bool:
        if self._last is None or self._last - _DAY < found < self._last + _MONTH:
            return False
        return self._stray is None or abs(found - self._stray) > _NEAR

    def _with_year(self, seconds: float) -> float:
        year = self._year_of_last()
        found = _new_year(year) + _without_leap_day(seconds, year)
        if self._last is None:
            return found
        if found < self._last - _HALF_YEAR:
            return _new_year(year + 1) + _without_leap_day(seconds, year + 1)
        if found > self._last + _HALF_YEAR:
            return _new_year(year - 1) + _without_leap_day(seconds, year - 1)
        return found

    def _year_of_last(self) -> int:
        if self._last is None:
            return self._year or LEAP_YEAR
        begin, end, year = self._year_span
        if not begin <= self._last < end:
            year = datetime.fromtimestamp(self._last, UTC).year
            self._year_span = (_new_year(year), _new_year(year + 1), year)
        return year

    def _with_day(self, seconds: float) -> float:
        if self._last is None:
            return _new_year(self._year or LEAP_YEAR) + seconds
        found = self._last - self._last % _DAY + seconds
        if found < self._last - _DAY / 2:
            return found + _DAY
        if found > self._last + _DAY / 2:
            return found - _DAY
        return found


def _in_leap_year(seconds: float) -> float:
    """The same day and time of the year that stands for an unknown one."""
    moment = datetime.fromtimestamp(seconds, UTC)
    return (
        _new_year(LEAP_YEAR)
        + (
            moment.replace(year=LEAP_YEAR)
            - moment.replace(
                year=LEAP_YEAR, month=1, day=1, hour=0, minute=0, second=0, microsecond=0
            )
        ).total_seconds()
    )


@functools.lru_cache(maxsize=512)
def _new_year(year: int) -> float:
    return datetime(year, 1, 1, tzinfo=UTC).timestamp()


_END_OF_FEBRUARY = 59 * _DAY


def _without_leap_day(seconds: float, year: int) -> float:
    """Of a leap year's seconds those of `year`."""
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if is_leap or seconds < _END_OF_FEBRUARY + _DAY:
        return seconds
    return seconds - _DAY
