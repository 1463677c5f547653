"""Counts by slots of equal length, from which every window is a sum.

A window ends with the slot that is under way and begins with the slot that holds its start, so
that it is never shorter than it is called, and longer by less than one slot.
"""

import bisect
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.slo.event_counts import EventCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class CountSlot:
    """What was counted from `start_unix` on, for the length of a slot."""

    start_unix: float
    counts: EventCounts


class RecordedCounts:
    """Of one objective. Slots in which nothing was counted are left out."""

    def __init__(self, slot_seconds: float, slots: Iterable[CountSlot]) -> None:
        self._slot_seconds = slot_seconds
        ordered = sorted(slots, key=lambda slot: slot.start_unix)
        self._starts = [slot.start_unix for slot in ordered]
        # Sums up to each slot: a window is the difference of two, however long it is.
        self._good = [0, *itertools.accumulate(slot.counts.good for slot in ordered)]
        self._total = [0, *itertools.accumulate(slot.counts.total for slot in ordered)]

    def over(self, seconds: float, end_unix: float) -> EventCounts:
        """What was counted in the `seconds` before `end_unix`."""
        first = bisect.bisect_right(self._starts, end_unix - seconds - self._slot_seconds)
        after = bisect.bisect_left(self._starts, end_unix)
        if after <= first:
            return EventCounts(good=0, total=0)
        return EventCounts(
            good=self._good[after] - self._good[first],
            total=self._total[after] - self._total[first],
        )
