"""The replica with the fewest sequences of all."""

from collections.abc import Iterable, Sequence, Set
from operator import attrgetter

from dataplane.routing.candidate import Candidate
from dataplane.routing.policy import Pick
from dataplane.routing.request import RoutedRequest

NAME = "least_outstanding"


class LeastOutstanding:
    """Looks at all. The same load always routes the same way."""

    name = NAME
    wants_prefixes = False

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        """By sequences, then id."""
        loads = [each.num_outstanding + each.num_foreign for each in candidates]
        fewest = min(loads)
        if loads.count(fewest) == 1:
            chosen = candidates[loads.index(fewest)]
        else:
            chosen = min(
                (each for each, load in zip(candidates, loads, strict=True) if load == fewest),
                key=_id,
            )
        if not wants_reason:
            return Pick(chosen)
        scores = list(zip(candidates, loads, strict=True))
        return Pick(chosen, scores, f"{fewest} sequences, the fewest of {len(candidates)}")


def choose_replica(
    candidates: Iterable[Candidate], excluded: Set[str] = frozenset(), num_slots: int = 1
) -> Candidate | None:
    """The candidate with room for `num_slots` and the fewest held, or None.

    Ties go to the lowest id. `excluded` holds the replicas that already failed this request, or
    are kept for another one.
    """
    open_candidates = (
        c for c in candidates if c.has_room_for(num_slots) and c.replica_id not in excluded
    )
    return min(open_candidates, key=_weight, default=None)


_id = attrgetter("replica_id")


def _weight(candidate: Candidate) -> tuple[int, str]:
    return (candidate.load, candidate.replica_id)
