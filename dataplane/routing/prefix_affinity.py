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
        tied = [each for each, score in zip(candidates, scores, strict=True) if score == least]
        chosen = min(tied, key=_weight)
        if not wants_reason:
            return Pick(chosen)
        scored = list(zip(candidates, scores, strict=True))
        reason = _explain(request, chosen, scored, "s" if typical else "tokens")
        return Pick(chosen, scored, reason)

    def _score(
        self, request: RoutedRequest, candidates: Sequence[Candidate], typical: float | None
    ) -> list[float]:
        """Of each, in seconds; in tokens where no rate is known."""
        cached, fixed, typical = request.num_cached_tokens, self._rate, typical or 1.0
        output_cost, num_prompt = self._output_cost, request.num_prompt_tokens
        of_foreign = output_cost * request.num_output_tokens
        scores = []
        for each in candidates:
            tokens: float = num_prompt + each.num_prompt_tokens_ahead
            tokens += output_cost * each.num_output_tokens_ahead
            if each.num_foreign:
                tokens += of_foreign * each.num_foreign
            if cached:
                tokens -= min(cached.get(each.replica_id, 0), max(0, num_prompt - 1))
            scores.append(tokens / (fixed or each.prefill_tokens_per_second or typical))
        return scores


def _mean_rate(candidates: Sequence[Candidate]) -> float | None:
    rates = [rate for each in candidates if (rate := each.prefill_tokens_per_second)]
    return sum(rates) / len(rates) if rates else None


def _weight(candidate: Candidate) -> tuple[int, str]:
    return (candidate.load, candidate.replica_id)


def _explain(
    request: RoutedRequest, chosen: Candidate, scored: Sequence[tuple[Candidate, float]], unit: str
) -> str:
    cached, num_prompt = request.num_cached_tokens, request.num_prompt_tokens
    has = f"has {cached.get(chosen.replica_id, 0)} of {num_prompt} prompt tokens"
    warmest = max(cached, key=lambda replica_id: cached[replica_id], default=None)
    cost = {each.replica_id: score for each, score in scored}
    of_chosen = f"{cost[chosen.replica_id]:.3g} {unit} to the first token"
    if (
        warmest is None
        or warmest not in cost
        or cached[warmest] <= cached.get(chosen.replica_id, 0)
    ):
        return f"{has} and {of_chosen}, the least of {len(scored)}"
    return (
        f"{has} and {of_chosen}; {warmest} has {cached[warmest]} of them and {cost[warmest]:.3g} "
        f"{unit}: waiting there costs more than computing them"
    )
