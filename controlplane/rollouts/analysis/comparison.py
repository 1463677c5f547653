"""Candidate against stable, measure by measure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.rollouts.analysis.difference import Interval, difference
from controlplane.rollouts.analysis.measures import MEASURES, Measure
from controlplane.rollouts.analysis.tally import Strata
from controlplane.rollouts.verdict import Decision, Measurement, Verdict, VerdictTerms, decide


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisTerms:
    """How much has to be known before a step is judged."""

    min_requests: int = 200
    """Of each arm, alike in both, for each measure."""
    confidence: float = 0.98
    """How sure it must be, 0 to 1, of all measures, looks and steps together: of candidates that
    are no worse at most the rest is rejected, and of worse ones at most the rest is promoted."""
    num_steps: int = 1
    """That the whole rollout has."""
    measures: tuple[Measure, ...] = MEASURES
    max_burn_rate: float = 6.0
    """Of an error budget of the contract; above 0."""

    def __post_init__(self) -> None:
        is_counted = self.min_requests >= 1 and self.num_steps >= 1
        is_rate = self.max_burn_rate > 0
        if not is_counted or not is_rate or not 0 < self.confidence < 1 or not self.measures:
            raise ValueError(
                "an analysis needs min_requests and num_steps of at least 1, a confidence between "
                "0 and 1, a max_burn_rate above 0 and a measure; got "
                f"{self.min_requests}, {self.num_steps}, {self.confidence}, "
                f"{self.max_burn_rate} and {len(self.measures)}"
            )

    @property
    def alpha(self) -> float:
        """What each measure of each step may be wrong by, and the contract as one more."""
        return (1 - self.confidence) / (self.num_steps * (len(self.measures) + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How the arms stand by one measure."""

    measure: Measure
    num_stable: int
    """Requests that have a like one in the other arm."""
    num_candidate: int
    num_unmatched: int
    """Of the candidate, without a like one."""
    apart: Interval | None
    """Candidate less stable, on the scale of the values; None: too few to tell."""
    applies: bool
    """The stable arm has answers to this question: it is one of this traffic."""
    is_good: bool | None
    """Not worse by more than the margin (True), worse (False), or not known yet."""

    @property
    def shown(self) -> Interval | None:
        """The same for people: of shares their difference, of anything else the parts by which
        the candidate's is larger."""
        if self.apart is None or self.measure.is_share:
            return self.apart
        return Interval(
            estimate=math.expm1(self.apart.estimate),
            low=math.expm1(self.apart.low),
            high=math.expm1(self.apart.high),
        )

    @property
    def in_words(self) -> str:
        """How far apart they are, and of how many requests."""
        if self.shown is None:
            return "not known"
        unit = "points" if self.measure.is_share else "%"
        least, most = sorted((100 * self.shown.low, 100 * self.shown.high))
        return (
            f"{100 * self.shown.estimate:+.3g} {unit} ({least:+.3g} to {most:+.3g}), of "
            f"{self.num_candidate} candidate and {self.num_stable} stable requests"
        )

    @property
    def measurement(self) -> Measurement:
        """As a step's verdict takes it."""
        return Measurement(
            metric=self.measure.name,
            value=None if self.shown is None else self.shown.estimate,
            is_good=self.is_good,
            why_none=(
                f"{self.num_stable} stable and {self.num_candidate} candidate requests are alike"
                if self.is_good is None
                else ""
            ),
        )


def compare(strata: Strata, measure: Measure, terms: AnalysisTerms) -> Comparison:
    """One measure over all strata."""
    matched = [each for each in strata.values() if each.stable.num and each.candidate.num]
    num_stable = sum(each.stable.num for each in matched)
    num_candidate = sum(each.candidate.num for each in matched)
    apart = difference(
        matched, alpha=terms.alpha, sharpest_at=measure.sharpest_at, is_share=measure.is_share
    )
    is_enough = min(num_stable, num_candidate) >= terms.min_requests
    return Comparison(
        measure=measure,
        num_stable=num_stable,
        num_candidate=num_candidate,
        num_unmatched=sum(each.candidate.num for each in strata.values()) - num_candidate,
        apart=apart,
        applies=any(each.stable.num for each in strata.values()),
        is_good=_judge(apart, measure) if apart is not None and is_enough else None,
    )


def _judge(apart: Interval, measure: Measure) -> bool | None:
    """Good once worse by the margin is ruled out, bad once no worse at all is."""
    least, most = (apart.low, apart.high) if measure.more_is_worse else (-apart.high, -apart.low)
    if most <= measure.sharpest_at:
        return True
    return False if least > 0 else None


def judge_measures(comparisons: Sequence[Comparison]) -> Decision:
    """What they say together. A question that no stable request answers is none of this traffic;
    one that only the candidate does not answer is open."""
    applying = [each for each in comparisons if each.applies]
    if not applying:
        applying = list(comparisons)
    terms = VerdictTerms(metrics=tuple(each.measure.name for each in applying))
    decision = decide([each.measurement for each in applying], terms)
    match decision.verdict:
        case Verdict.REJECT:
            return replace(decision, reason=_worse(applying))
        case Verdict.UNDECIDED:
            return replace(decision, reason=_not_known(applying))
        case Verdict.PROMOTE:
            names = ", ".join(each.measure.name for each in applying)
            return replace(decision, reason=f"no worse by {names}")


def _worse(applying: Sequence[Comparison]) -> str:
    bad = [each for each in applying if each.is_good is False]
    return "; ".join(f"{each.measure.name} is worse: {each.in_words}" for each in bad)


def _not_known(applying: Sequence[Comparison]) -> str:
    """The same for all that is open, in one sentence."""
    still_open = [each for each in applying if each.is_good is None]
    fewest = min(still_open, key=lambda each: min(each.num_stable, each.num_candidate))
    names = ", ".join(each.measure.name for each in still_open)
    return f"{names} not known yet; {fewest.measurement.why_none}"


def analyse(strata: Mapping[str, Strata], terms: AnalysisTerms) -> list[Comparison]:
    """Every measure, over all requests that ended in a step so far. `strata`: by measure."""
    return [compare(strata[each.name], each, terms) for each in terms.measures]
