"""The replica with the fewest sequences of all."""

from collections.abc import Sequence

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
                key=lambda each: each.replica_id,
            )
        if not wants_reason:
            return Pick(chosen)
        scores = list(zip(candidates, loads, strict=True))
        return Pick(chosen, scores, f"{fewest} sequences, the fewest of {len(candidates)}")
