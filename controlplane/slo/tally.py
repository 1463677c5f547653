"""What objectives judged, kept in memory so that many windows of many promises are read often.

Three days of 1,600 objectives are millions of rows, and asking the database for every window twice
a minute would keep a core busy. What is kept is each objective by the minute for six hours and by
the hour for as long as a budget lasts; of that only the newest part is read again:

    how often              what is read again
    each time              the last three minutes, and all since a minute that was noted as changed
    every ten minutes      the last hour, for what came late and nobody noted
    every six hours        all

Windows up to six hours begin with a whole minute and end with the one under way, so that they are
up to a minute shorter than they are called. Longer ones begin with a whole hour, and are up to an
hour longer.
"""

import threading
from collections.abc import Iterable

from sqlalchemy.orm import Session

from controlplane.slo.alert_windows import HOUR, MINUTE
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.slots import CountSlots
from controlplane.store.objective_counts import ObjectiveKey, read_hours, read_minutes

LONGEST_BY_MINUTES = 6 * HOUR
_TAIL = 3 * MINUTE
_HOUR_EVERY, _ALL_EVERY = 10 * MINUTE, 6 * HOUR
CountsByKey = dict[ObjectiveKey, EventCounts]


class Tally:
    """Of all deployments. Any thread may note changes; one at a time reads."""

    def __init__(self) -> None:
        self._numbers: dict[ObjectiveKey, int] = {}
        self._minutes = CountSlots(MINUTE, LONGEST_BY_MINUTES // MINUTE)
        self._hours = CountSlots(HOUR, 1)
        self._end_unix = 0
        """Of the newest minute that was read; 0: nothing was read."""
        self._hour_read_unix = self._all_read_unix = 0
        self._lock = threading.Lock()
        self._changed_unix: int | None = None

    def note_changed(self, minute_unix: int) -> None:
        """Counts of that minute, or of later ones, are others now."""
        with self._lock:
            if self._changed_unix is None or minute_unix < self._changed_unix:
                self._changed_unix = minute_unix

    def refresh(self, session: Session, now_unix: int, longest_seconds: int) -> None:
        """Read what is new, to answer for windows up to `longest_seconds`."""
        with self._lock:
            changed, self._changed_unix = self._changed_unix, None
        try:
            self._read(session, now_unix, longest_seconds, changed)
        except BaseException:
            # Whatever was read by then is not known to be whole.
            self._end_unix = 0
            raise

    def counts(self, now_unix: int, seconds: int) -> CountsByKey:
        """Of the window of `seconds` that ends now, as of the last refresh. An objective that
        judged nothing is absent."""
        end, rows = _after(now_unix, MINUTE), len(self._numbers)
        if seconds <= LONGEST_BY_MINUTES:
            whole = max(MINUTE, seconds - seconds % MINUTE)
            sums = self._minutes.sums(end - whole, end, rows)
        else:
            hour = _floor(now_unix, HOUR)
            sums = self._minutes.sums(hour, end, rows)
            sums = sums + self._hours.sums(_floor(now_unix - seconds, HOUR), hour, rows)
        return _by_key(self._numbers, sums.tolist())

    def _read(
        self, session: Session, now_unix: int, longest_seconds: int, changed: int | None
    ) -> None:
        end, hour = _after(now_unix, MINUTE), _floor(now_unix, HOUR)
        # Never fewer again: who asks for a shorter budget next would have all read anew.
        num_hours = max(longest_seconds // HOUR + 1, self._hours.num_slots)
        oldest_minute, oldest_hour = end - LONGEST_BY_MINUTES, hour - num_hours * HOUR
        is_whole = self._is_whole(now_unix, num_hours)
        if is_whole:
            self._numbers, self._all_read_unix = {}, now_unix
            if num_hours != self._hours.num_slots:
                self._hours = CountSlots(HOUR, num_hours)
            since = oldest_hour
        elif now_unix - self._hour_read_unix >= _HOUR_EVERY:
            since = end - HOUR
        else:
            since = self._end_unix - _TAIL
        since = since if changed is None else min(since, changed)
        if since <= end - HOUR:
            self._hour_read_unix = now_unix
        start = max(oldest_minute, min(_floor(since, MINUTE), self._end_unix))
        self._minutes.replace(start, end, read_minutes(session, start, end), self._numbers)
        # What was minutes of the hour under way is one of the hours now.
        since_hour = min(_floor(since, HOUR), _floor(self._end_unix - 1, HOUR))
        start = max(oldest_hour, since_hour)
        self._hours.replace(start, hour, read_hours(session, start, hour), self._numbers)
        self._end_unix = end

    def _is_whole(self, now_unix: int, num_hours: int) -> bool:
        """Whether all is to be read: at first, now and then, after a clock that went back, and
        where a longer budget is asked for."""
        return (
            not self._end_unix
            or not 0 <= now_unix - self._all_read_unix < _ALL_EVERY
            or _after(now_unix, MINUTE) < self._end_unix
            or num_hours > self._hours.num_slots
        )


def _by_key(numbers: dict[ObjectiveKey, int], sums: Iterable[list[int]]) -> CountsByKey:
    found = {}
    for key, (good, total) in zip(numbers, sums, strict=True):
        counts = EventCounts.summed(good, total)
        if counts != NO_EVENTS:
            found[key] = counts
    return found


def _floor(at_unix: int, seconds: int) -> int:
    return at_unix - at_unix % seconds


def _after(at_unix: int, seconds: int) -> int:
    """The end of the slot under way."""
    return _floor(at_unix, seconds) + seconds
