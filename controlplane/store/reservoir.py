"""A fair sample of fixed size from a stream of unknown length (algorithm R).

Every record offered ends up kept with the same probability, whenever it came and however
the stream was cut into batches: an overload can fill a reservoir, never overflow it.
"""

from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple


class RecordKey(NamedTuple):
    """The identity of one record."""

    gateway_id: str
    gateway_sequence: int


@dataclass(slots=True)
class Reservoir:
    """One reservoir, as it stands while a batch passes."""

    size: int
    num_offered: int = 0
    kept: list[RecordKey] = field(default_factory=list)

    def offer(self, key: RecordKey, random: Random) -> RecordKey | None:
        """Consider one more record.

        Returns the key that is not kept because of it: an earlier one that makes room, `key`
        itself when it was not drawn, or None while there is room for all.
        """
        self.num_offered += 1
        if len(self.kept) < self.size:
            self.kept.append(key)
            return None
        slot = random.randrange(self.num_offered)
        if slot >= self.size:
            return key
        evicted, self.kept[slot] = self.kept[slot], key
        return evicted
