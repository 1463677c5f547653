"""A step judged: the candidate against the stable arm, and against the contract. Pure.

- Any measure by which the candidate is surely worse rejects it, and so does any promise whose
  budget it surely burns too fast, and surely faster than the stable arm.
- It is promoted where every measure of this traffic says that it is no worse, and no promise says
  that both arms burn too fast (what makes both suffer has to be over first) or that the candidate
  surely misses what the stable arm may keep.
- With all of the traffic there is nobody left to compare with. Then the contract alone decides, by
  at least `min_requests` of the candidate that were judged by it: one that surely misses a promise,
  and not surely too fast to keep, waits for a person.
- Whatever could not be measured is undecided.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controlplane.rollouts.analysis.comparison import (
    AnalysisTerms,
    Comparison,
    analyse,
    judge_measures,
)
from controlplane.rollouts.analysis.difference import Interval
from controlplane.rollouts.analysis.shadow import ShadowSeen, judge_shadow
from controlplane.rollouts.analysis.standing import (
    Burning,
    Standing,
    StandingTerms,
    find_standings,
)
from controlplane.rollouts.analysis.tally import Tally
from controlplane.rollouts.verdict import Decision, Measurement, Verdict
from controlplane.slo.promised import Promise
from dataplane.arm import Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnalysis:
    """What the requests of a step say."""

    comparisons: list[Comparison]
    """None with all of the traffic."""
    standings: list[Standing]
    """One for each promise of the contract."""
    decision: Decision
    shadow: ShadowSeen | None = None
    """Of a step in shadow, of which nothing else is known."""
    differing: Interval | None = None
    """The share that the policy in shadow decides otherwise on."""


def analyse_shadow(
    seen: ShadowSeen, terms: AnalysisTerms, different_at_most: float | None
) -> StepAnalysis:
    """Of a step in which the candidate's policy only looks on."""
    decision = judge_shadow(
        seen, min_requests=terms.min_requests, alpha=terms.alpha, at_most=different_at_most
    )
    return StepAnalysis(
        comparisons=[],
        standings=[],
        decision=decision,
        shadow=seen,
        differing=seen.differing(terms.alpha),
    )


def analyse_step(
    tally: Tally,
    promises: Sequence[Promise],
    terms: AnalysisTerms,
    *,
    share: float,
) -> StepAnalysis:
    """Of all that ended in it so far. `promises`: of the contract in force; requests that were
    judged by another revision speak of no promise. `share`: the candidate's, 0 to 1."""
    standing_terms = StandingTerms(alpha=terms.alpha, max_burn_rate=terms.max_burn_rate)
    standings = find_standings(tally.kept, promises, standing_terms)
    if share >= 1:
        decision = judge_alone(standings, terms.min_requests)
        return StepAnalysis(comparisons=[], standings=standings, decision=decision)
    comparisons = analyse(tally.strata, terms)
    decision = judge_step(comparisons, standings)
    return StepAnalysis(comparisons=comparisons, standings=standings, decision=decision)


def judge_step(comparisons: Sequence[Comparison], standings: Sequence[Standing]) -> Decision:
    """Of a step in which both arms get requests."""
    decision = judge_measures(comparisons)
    too_fast = _of(Burning.TOO_FAST, standings)
    with_stable = _of(Burning.WITH_STABLE, standings)
    if too_fast and decision.verdict is Verdict.REJECT:
        return replace(decision, reason=f"{decision.reason}; {_words(too_fast)}")
    if too_fast:
        return _reject(too_fast)
    if decision.verdict is Verdict.PROMOTE and with_stable:
        return Decision(
            verdict=Verdict.UNDECIDED,
            reason=f"{_words(with_stable)}; the stable arm may suffer from the same",
        )
    misses = _of(Burning.MISSES, standings)
    if decision.verdict is Verdict.PROMOTE and misses:
        return Decision(
            verdict=Verdict.UNDECIDED,
            reason=f"{_words(misses)}; the stable arm is not known to miss it",
        )
    return decision


def judge_alone(standings: Sequence[Standing], min_requests: int) -> Decision:
    """Of a step in which the candidate gets all requests."""
    too_fast = [*_of(Burning.TOO_FAST, standings), *_of(Burning.WITH_STABLE, standings)]
    if too_fast:
        return _reject(too_fast)
    if not standings:
        reason = "it gets all requests, and no contract says what they are promised"
        return Decision(verdict=Verdict.UNDECIDED, reason=reason)
    misses = _of(Burning.MISSES, standings)
    if misses:
        return Decision(verdict=Verdict.UNDECIDED, reason=_words(misses))
    num = max(each.kept[Arm.CANDIDATE].num for each in standings)
    if num < min_requests:
        reason = f"{num} of its requests were judged by the contract, {min_requests} are needed"
        return Decision(verdict=Verdict.UNDECIDED, reason=reason)
    revision = standings[0].promise.contract_revision
    return Decision(verdict=Verdict.PROMOTE, reason=f"no promise of {revision} is surely missed")


def _of(burning: Burning, standings: Sequence[Standing]) -> list[Standing]:
    return [each for each in standings if each.burning is burning]


def _words(standings: Sequence[Standing]) -> str:
    """The fastest in figures, and how many there are."""
    others = len(standings) - 1
    more = f", and so do {others} more of its promises" if others else ""
    return f"{_fastest(standings).in_words}{more}"


def _fastest(standings: Sequence[Standing]) -> Standing:
    def least(each: Standing) -> float:
        burn = each.burn[Arm.CANDIDATE]
        return 0.0 if burn is None else burn.low

    return max(standings, key=least)


def _reject(too_fast: Sequence[Standing]) -> Decision:
    first = _fastest(too_fast)
    burn = first.burn[Arm.CANDIDATE]
    return Decision(
        verdict=Verdict.REJECT,
        reason=_words(too_fast),
        deciding=Measurement(
            metric=first.promise.name,
            value=None if burn is None else burn.estimate,
            is_good=False,
        ),
    )
