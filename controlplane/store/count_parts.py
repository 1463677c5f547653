"""From which table of exact counts a time is read: whole hours from their sums, the rest by
minutes."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, and_

from controlplane.store.counts import HOUR_SECONDS
from controlplane.store.request_tables import HourCountRow, MinuteCountRow


class CountPart(NamedTuple):
    """A piece of a time that is read from one table."""

    table: type[HourCountRow | MinuteCountRow]
    start_unix: int
    end_unix: int
    """Not part of it any more."""

    @property
    def at(self) -> ColumnElement[int]:
        """The table's own times."""
        of_hours, of_minutes = HourCountRow.hour_unix, MinuteCountRow.minute_unix
        return (of_hours if self.table is HourCountRow else of_minutes).expression

    @property
    def is_within(self) -> ColumnElement[bool]:
        """What a row of this piece fulfils."""
        return and_(self.at >= self.start_unix, self.at < self.end_unix)


def parts_of(start_unix: int, end_unix: int) -> list[CountPart]:
    """Of whole minutes both. The hour under way is read by minutes."""
    first = -(-start_unix // HOUR_SECONDS) * HOUR_SECONDS
    last = end_unix // HOUR_SECONDS * HOUR_SECONDS
    if first >= last:
        return [CountPart(MinuteCountRow, start_unix, end_unix)]
    parts = (
        CountPart(MinuteCountRow, start_unix, first),
        CountPart(HourCountRow, first, last),
        CountPart(MinuteCountRow, last, end_unix),
    )
    return [part for part in parts if part.start_unix < part.end_unix]
