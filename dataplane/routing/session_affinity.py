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

    def choose(self, key: str, candidates: Sequence[Candidate]) -> Candidate | None:
        """The highest ranked of those that are not overloaded; None where all are."""
        bound = max(_MIN_OVERLOAD, OVERLOAD_FACTOR * _mean_load(candidates))
        able = [each for each in candidates if each.num_outstanding + each.num_foreign <= bound]
        if not able:
            return None
        number, of_replica = _number(key), self._number_replica
        mixed = [(number ^ of_replica(each.replica_id)) * _FIRST_FACTOR & _MASK for each in able]
        ranks = [(each ^ each >> 15) * _SECOND_FACTOR & _MASK for each in mixed]
        highest = max(ranks)
        if ranks.count(highest) == 1:
            return able[ranks.index(highest)]
        tied = [each for each, rank in zip(able, ranks, strict=True) if rank == highest]
        return min(tied, key=lambda each: each.replica_id)

    def _number_replica(self, replica_id: str) -> int:
        number = self._numbers.get(replica_id)
        if number is None:
            if len(self._numbers) >= _MAX_REMEMBERED:  # ids are never used again
                self._numbers.clear()
            number = self._numbers[replica_id] = _number(replica_id)
        return number


def _mean_load(candidates: Sequence[Candidate]) -> float:
    return sum(each.num_outstanding + each.num_foreign for each in candidates) / len(candidates)


def _number(text: str) -> int:
    """The same in every process, unlike `hash`."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") & _MASK
