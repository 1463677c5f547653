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
        self._draw = random.random

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        """By sequences, then tokens, then id."""
        number = len(candidates)
        if number == 1:
            only = candidates[0]
            return (
                Pick(only, ((only, only.load),), "it was the only one")
                if wants_reason
                else (Pick(only))
            )
        first = int(self._draw() * number)
        second = int(self._draw() * (number - 1))
        if second >= first:
            second += 1
        better, worse = candidates[first], candidates[second]
        if _weight(worse) < _weight(better):
            better, worse = worse, better
        if not wants_reason:
            return Pick(better)
        return Pick(better, ((better, better.load), (worse, worse.load)), _explain(better, worse))


def _weight(candidate: Candidate) -> tuple[int, int, str]:
    return (candidate.load, candidate.num_prompt_tokens_ahead, candidate.replica_id)


def _explain(better: Candidate, worse: Candidate) -> str:
    drawn = f"of two drawn at random, {better.load} sequences"
    if better.load < worse.load:
        return f"{drawn} before {worse.load} of {worse.replica_id}"
    return f"{drawn}, as many as {worse.replica_id}"
