"""Power of two choices: of two replicas drawn at random, the one with less on it.

Nearly as even as looking at all of them, at a cost that does not grow with their number, and
several gateways that know nothing of each other do not run to the same idle replica at once.
"""

from collections.abc import Sequence
from random import Random

from dataplane.routing.candidate import Candidate
from dataplane.routing.policy import Pick
from dataplane.routing.request import RoutedRequest

NAME = "two_choices"


class TwoChoices:
    """Draws from the generator that it is given alone."""

    name = NAME
    wants_prefixes = False

    def __init__(self, random: Random) -> None:
        self._random = random.random

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        """By sequences, then prompt tokens ahead, then id."""
        if not wants_reason:
            return Pick(self.draw(candidates))
        better, worse = self._draw_two(candidates)
        if worse is None:
            return Pick(better, ((better, better.load),), "it was the only one")
        return Pick(better, ((better, better.load), (worse, worse.load)), _explain(better, worse))

    def draw(self, candidates: Sequence[Candidate]) -> Candidate:
        """What `choose` chooses, and nothing about it."""
        return self._draw_two(candidates)[0]

    def _draw_two(self, candidates: Sequence[Candidate]) -> tuple[Candidate, Candidate | None]:
        """The better one first."""
        number = len(candidates)
        if number == 1:
            return candidates[0], None
        position = int(self._random() * number)
        other_position = int(self._random() * (number - 1))
        if other_position >= position:
            other_position += 1
        one, other = candidates[position], candidates[other_position]
        difference = (
            one.num_outstanding + one.num_foreign - other.num_outstanding - other.num_foreign
        )
        if difference < 0 or (difference == 0 and _tie(one) < _tie(other)):
            return one, other
        return other, one


def _tie(candidate: Candidate) -> tuple[int, str]:
    return (candidate.num_prompt_tokens_ahead, candidate.replica_id)


def _explain(better: Candidate, worse: Candidate) -> str:
    drawn = f"of two drawn at random, {better.load} sequences"
    if better.load < worse.load:
        return f"{drawn} before {worse.load} of {worse.replica_id}"
    return f"{drawn}, as many as {worse.replica_id}"
