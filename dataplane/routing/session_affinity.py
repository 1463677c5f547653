"""The replica of a session: the same one while it is there, whoever else comes and goes.

Rendezvous hashing: each replica has a rank for each key, and the highest of those that can be
taken wins. A replica that goes moves its own sessions alone, one that comes takes its share from
all, and nothing is remembered. Every gateway finds the same without asking.
"""

from collections.abc import Sequence
from hashlib import blake2b

from dataplane.routing.candidate import Candidate

OVERLOAD_FACTOR = 2.0
"""One with more than this many times the mean load of those that could take a request is not
given one for the sake of a session."""
_MIN_OVERLOAD = 4
"""Sequences: below, nobody is overloaded."""
_MAX_REMEMBERED = 16_384
_MASK = (1 << 30) - 1  # small enough that Python multiplies in one go
_FIRST_FACTOR = 0x297A2D39
_SECOND_FACTOR = 0x2C1B3C6D


class SessionAffinity:
    """Ranks replicas for keys."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def num_remembered(self) -> int:
        """Replicas whose number is known."""
        return len(self._numbers)

    def choose(self, key: str, candidates: Sequence[Candidate]) -> Candidate:
        """The highest ranked of those that are not overloaded; somebody always is not."""
        loads = [each.num_outstanding + each.num_foreign for each in candidates]
        bound = max(_MIN_OVERLOAD, OVERLOAD_FACTOR * sum(loads) / len(loads))
        if max(loads) > bound:
            able = [each for each, load in zip(candidates, loads, strict=True) if load <= bound]
        else:
            able = list(candidates)
        ranks = self._rank(_number(key), able)
        highest = max(ranks)
        if ranks.count(highest) == 1:
            return able[ranks.index(highest)]
        tied = [each for each, rank in zip(able, ranks, strict=True) if rank == highest]
        return min(tied, key=lambda each: each.replica_id)

    def _rank(self, number: int, candidates: Sequence[Candidate]) -> list[int]:
        numbers = self._numbers
        try:
            own = [numbers[each.replica_id] for each in candidates]
        except KeyError:
            own = [self._number_replica(each.replica_id) for each in candidates]
        mixed = [(number ^ each) * _FIRST_FACTOR & _MASK for each in own]
        return [(each ^ each >> 15) * _SECOND_FACTOR & _MASK for each in mixed]

    def _number_replica(self, replica_id: str) -> int:
        number = self._numbers.get(replica_id)
        if number is None:
            if len(self._numbers) >= _MAX_REMEMBERED:  # ids are never used again
                self._numbers.clear()
            number = self._numbers[replica_id] = _number(replica_id)
        return number


def _number(text: str) -> int:
    """The same in every process, unlike `hash`."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") & _MASK
