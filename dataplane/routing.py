"""Which replica takes a request: a pure choice over what is connected now."""

from collections.abc import Iterable, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One connected replica as the router sees it."""

    replica_id: str
    num_outstanding: int
    """Requests this gateway gave it that still hold a slot."""
    max_outstanding: int | None
    """None: the replica does not say and no policy does."""

    @property
    def has_room(self) -> bool:
        """It may be given one more."""
        return self.max_outstanding is None or self.num_outstanding < self.max_outstanding


def choose_replica(
    candidates: Iterable[Candidate], excluded: Set[str] = frozenset()
) -> Candidate | None:
    """The candidate with room and the fewest outstanding requests, or None.

    Ties go to the lowest id, so that the same load always routes the same way. `excluded`
    holds the replicas that already failed this request.
    """
    open_candidates = (c for c in candidates if c.has_room and c.replica_id not in excluded)
    return min(open_candidates, key=lambda c: (c.num_outstanding, c.replica_id), default=None)
