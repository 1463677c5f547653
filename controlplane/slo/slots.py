"""Counts of many objectives by slots of equal length, from which every window is a sum."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from controlplane.store.objective_counts import ObjectiveKey, ObjectiveSlot

_GROWTH = 256
Sums = npt.NDArray[np.int64]
"""One row for each objective: good, total."""


class CountSlots:
    """The newest so many slots. A slot's place is its number modulo their number, so that a new
    one takes the place of the one that is too old.

        place   0      1      2      3          4 slots of a minute, 12:05 is the newest
                12:04  12:05  12:02  12:03
    """

    def __init__(self, slot_seconds: int, num_slots: int) -> None:
        self.slot_seconds = slot_seconds
        self.num_slots = num_slots
        self._counts = _zeros(_GROWTH, num_slots)

    def replace(
        self,
        start_unix: int,
        end_unix: int,
        counted: Iterable[ObjectiveSlot],
        numbers: dict[ObjectiveKey, int],
    ) -> None:
        """All that is known of the slots from `start_unix` until before `end_unix`. `numbers`:
        each objective's row, to which those are added that are new."""
        for at_unix in range(start_unix, end_unix, self.slot_seconds):
            self._counts[:, self._place(at_unix)] = 0
        for slot in counted:
            row = numbers.setdefault(slot.key, len(numbers))
            if row >= len(self._counts):
                self._grow(row)
            self._counts[row, self._place(slot.at_unix), 0 if slot.is_good else 1] += slot.number

    def sums(self, start_unix: int, end_unix: int, num_rows: int) -> Sums:
        """Of the slots from `start_unix` until before `end_unix`."""
        if num_rows > len(self._counts):
            self._grow(num_rows - 1)
        places = [self._place(at) for at in range(start_unix, end_unix, self.slot_seconds)]
        found: Sums = self._counts[:num_rows, places].sum(axis=1, dtype=np.int64)
        return found

    def _place(self, at_unix: int) -> int:
        return at_unix // self.slot_seconds % self.num_slots

    def _grow(self, row: int) -> None:
        more = max(_GROWTH, row + 1 - len(self._counts))
        self._counts = np.concatenate([self._counts, _zeros(more, self.num_slots)])


def _zeros(num_rows: int, num_slots: int) -> npt.NDArray[np.int32]:
    return np.zeros((num_rows, num_slots, 2), dtype=np.int32)
