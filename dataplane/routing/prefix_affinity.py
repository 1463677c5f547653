"""Where a request gets its first token soonest: work that is ahead of it, plus its own.

    cost = prompt tokens ahead + prompt tokens not cached there + share of output tokens ahead

over the replica's prefill rate. So a warm replica wins while what waits there costs less than
computing the prompt on an idle one: 20,000 cached tokens at 10,000 tokens/s are worth two seconds
of its queue. Output tokens ahead count at a part: they share steps with the prompt, and pile up
where every request of one prefix went.

Where no rate is known at all, the cost is in tokens, which compares the same.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dataplane.routing.candidate import Candidate
from dataplane.routing.policy import Pick
from dataplane.routing.request import RoutedRequest
from dataplane.routing.settings import read_numbers

NAME = "prefix"
OUTPUT_TOKEN_COST = 0.25
"""Of a prompt token."""
_DEFAULTS: Mapping[str, float | None] = {
    "prefill_tokens_per_s": None,
    "output_token_cost": OUTPUT_TOKEN_COST,
}


class PrefixAffinity:
    """Looks at all, with what each has of the prompt."""

    name = NAME
    wants_prefixes = True

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """`prefill_tokens_per_s`: of every replica, in the place of what is measured of each.
        Raises ValueError."""
        read = read_numbers(f"routing policy {NAME}", settings, _DEFAULTS)
        self._rate = read["prefill_tokens_per_s"]
        self._output_cost = read["output_token_cost"] or 0.0

    def choose(
        self, request: RoutedRequest, candidates: Sequence[Candidate], wants_reason: bool
    ) -> Pick:
        """By cost, then sequences, then id."""
        typical = self._rate or _mean_rate(candidates)
        scores = self._score(request, candidates, typical)
        least = min(scores)
        if scores.count(least) == 1:
            chosen = candidates[scores.index(least)]
        else:
            tied = (each for each, score in zip(candidates, scores, strict=True) if score == least)
            chosen = min(tied, key=_weight)
        if not wants_reason:
            return Pick(chosen)
        scored = list(zip(candidates, scores, strict=True))
        return Pick(chosen, scored, _explain(request, chosen, scored, "s" if typical else "tokens"))

    def _score(
        self, request: RoutedRequest, candidates: Sequence[Candidate], typical: float | None
    ) -> list[float]:
        """Of each, in seconds; in tokens where no rate is known. All in one expression: it is
        asked of every replica, for every request."""
        cached_at, num_prompt = request.num_cached_tokens.get, request.num_prompt_tokens
        output_cost = self._output_cost
        of_foreign = output_cost * request.num_output_tokens
        tokens = [
            num_prompt
            - cached_at(each.replica_id, 0)
            + each.num_prompt_tokens_ahead
            + output_cost * each.num_output_tokens_ahead
            + of_foreign * each.num_foreign
            for each in candidates
        ]
        if typical is None:
            return tokens
        if self._rate is not None:
            return [each / typical for each in tokens]
        return [
            each / (candidate.prefill_tokens_per_second or typical)
            for each, candidate in zip(tokens, candidates, strict=True)
        ]


def _mean_rate(candidates: Sequence[Candidate]) -> float | None:
    rates = [rate for each in candidates if (rate := each.prefill_tokens_per_second)]
    return sum(rates) / len(rates) if rates else None


def _weight(candidate: Candidate) -> tuple[int, str]:
    return (candidate.load, candidate.replica_id)


def _explain(
    request: RoutedRequest, chosen: Candidate, scored: Sequence[tuple[Candidate, float]], unit: str
) -> str:
    cached = request.num_cached_tokens
    num_own = cached.get(chosen.replica_id, 0)
    score = next(score for each, score in scored if each is chosen)
    told = (
        f"has {num_own} of {request.num_prompt_tokens} prompt tokens and {score:.3g} {unit} to the "
        f"first token"
    )
    most = max(cached.values(), default=0)
    warmest = None
    if most > num_own:  # it may be among those that have no room
        warmest = next((each for each in scored if cached.get(each[0].replica_id) == most), None)
    if warmest is None:
        return f"{told}, the least of {len(scored)}"
    return (
        f"{told}; {warmest[0].replica_id} has {most} of them and {warmest[1]:.3g} {unit}: "
        f"waiting there costs more than computing them"
    )
