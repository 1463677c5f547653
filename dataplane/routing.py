"""Which replica takes a request: a pure choice over what is connected now."""

from collections.abc import Iterable, Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One connected replica as the router sees it."""

    replica_id: str
    num_outstanding: int
    """Its slots that are held, one for each sequence, whichever gateway of this place gave them."""
    max_outstanding: int | None
    """None: the replica does not say and no policy does."""

    def has_room_for(self, num_slots: int) -> bool:
        """It may be given a request of so many sequences. One with more than it has slots goes to
        it alone: it would otherwise wait for ever."""
        if self.max_outstanding is None:
            return True
        num_needed = min(num_slots, self.max_outstanding)
        return 0 < num_needed <= self.max_outstanding - self.num_outstanding


def choose_replica(
    candidates: Iterable[Candidate], excluded: Set[str] = frozenset(), num_slots: int = 1
) -> Candidate | None:
    """The candidate with room for `num_slots` and the fewest held, or None.

    Ties go to the lowest id, so that the same load always routes the same way. `excluded`
    holds the replicas that already failed this request, or are kept for another one.
    """
    open_candidates = (
        c for c in candidates if c.has_room_for(num_slots) and c.replica_id not in excluded
    )
    return min(open_candidates, key=lambda c: (c.num_outstanding, c.replica_id), default=None)


def limit_slots(max_active: int | None, max_num_seqs: int | None, surplus_slots: int) -> int | None:
    """Slots that a gateway gives of one replica; None: no limit.

    The policy's `max_active` is hard. What the engine says it runs at once gets a surplus, so
    that it never idles, and a request of more sequences than that is given all of it: its engine
    has them wait.
    """
    limits = [] if max_active is None else [max_active]
    if max_num_seqs is not None:
        limits.append(max_num_seqs + surplus_slots)
    return min(limits, default=None)
