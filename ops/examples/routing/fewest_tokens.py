"""A routing policy as a plugin: the replica with the fewest tokens ahead takes the request."""

from collections.abc import Sequence
from random import Random

from dataplane.hooks import hookimpl
from dataplane.policy import RoutingTerms
from dataplane.routing.candidate import Candidate
from dataplane.routing.policy import Pick
from dataplane.routing.request import RoutedRequest

NAME = "fewest_tokens"


@hookimpl
def pilothouse_create_router(terms: RoutingTerms, random: Random) -> "FewestTokens | None":
    """Made once for each deployment whose policy says `routing: {policy: fewest_tokens}`."""
    if terms.policy != NAME:
        return None
    settings = dict(terms.settings)
    weight = settings.pop("output_weight", 1.0)
    if settings or not isinstance(weight, int | float) or weight < 0:
        raise ValueError(f"{NAME} takes output_weight, a number that is not below 0")
    return FewestTokens(float(weight))


class FewestTokens:
    """Prompt tokens that are not computed yet, and output tokens by weight."""

    name = NAME
    wants_prefixes = False

    def __init__(self, output_weight: float) -> None:
        self._output_weight = output_weight

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        """The least score; of equal ones, the lowest id."""
        scored = [(each, self._score(each)) for each in candidates]
        chosen, score = min(scored, key=lambda each: (each[1], each[0].replica_id))
        if not wants_reason:
            return Pick(chosen)
        return Pick(chosen, scored, f"{score:.0f} tokens ahead, the fewest of {len(scored)}")

    def _score(self, candidate: Candidate) -> float:
        ahead = candidate.num_prompt_tokens_ahead
        return ahead + self._output_weight * candidate.num_output_tokens_ahead
