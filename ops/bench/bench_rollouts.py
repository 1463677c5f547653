"""How often the analysis of rollouts catches a regression, and how often it aborts what is good.

    .venv/bin/python ops/bench/bench_rollouts.py
    .venv/bin/python ops/bench/bench_rollouts.py --rollouts 100 --points 0 5 --requests 4000

Each simulated rollout gives a candidate 5, 25 and 50 % of the traffic. Requests are of two classes
and four lengths of prompts, each with an attainment of its own, answers of any length, and times to
the first token and of tokens that are spread as those of real engines are; the candidate's
attainment is lower by some points everywhere, and nothing else differs. The arms are judged anew
after every tenth of the requests of a step, all measures together, by what judges real rollouts.
Rejected is aborted at once; promoted all three times is promoted; and what is undecided when the
requests of a step are over waits for a person. A regression is caught by either of these. Intervals
are Wilson's, 95 %.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from controlplane.rollouts.analysis.comparison import AnalysisTerms, Strata, compare, judge_measures
from controlplane.rollouts.analysis.difference import Stratum
from controlplane.rollouts.analysis.measures import Measure
from controlplane.rollouts.analysis.moments import Moments
from controlplane.rollouts.verdict import Verdict

SHARES = (0.05, 0.25, 0.5)
NUM_LOOKS = 10
ATTAINMENT = (0.999, 0.99, 0.985, 0.97, 0.99, 0.98, 0.96, 0.93)
"""Of the stable arm, by class and length of prompt."""
OFTEN = (0.2, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1, 0.05)
"""How often each of them comes."""
_OF_SHARES = {"failures": 0.002, "cut": 0.2, "empty": 0.001}
_SPREADS = {"answer_length": 1.0, "ttft": 0.6, "tpot": 0.25}
"""Standard deviation of the logarithm among requests that are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of rollout."""

    points: float
    """By which the candidate's attainment is lower, in points of a hundred."""
    num_requests: int
    """Of the candidate, in each step, at most."""


def _values(
    rng: np.random.Generator, measure: Measure, stratum: int, num: int, worse: float
) -> np.ndarray:
    """Of one measure for `num` requests, in the order in which they end."""
    if measure.name in _SPREADS:
        return rng.normal(0.0, _SPREADS[measure.name], num)
    share = _OF_SHARES.get(measure.name, ATTAINMENT[stratum] - worse)
    return rng.random(num) < share


def _moments(values: np.ndarray, is_share: bool) -> Moments:
    num = len(values)
    if not num:
        return Moments()
    if is_share:
        return Moments.of_share(num, int(values.sum()))
    mean = float(values.mean())
    return Moments(num, mean, float(((values - mean) ** 2).sum()))


class _Step:
    """All that will end in one step, of which each look sees a part."""

    def __init__(self, rng: np.random.Generator, case: Case, share: float, terms: AnalysisTerms):
        self._terms = terms
        num_stable = int(case.num_requests * (1 - share) / share)
        self._counts = [rng.multinomial(num, OFTEN) for num in (num_stable, case.num_requests)]
        self._values = {
            measure.name: [
                [
                    _values(rng, measure, stratum, int(num), worse)
                    for stratum, num in enumerate(counts)
                ]
                for counts, worse in zip(self._counts, (0.0, case.points / 100), strict=True)
            ]
            for measure in terms.measures
        }

    def verdict(self, part: float) -> Verdict:
        """Once that part of it has ended."""
        comparisons = [
            compare(self._strata(measure, part), measure, self._terms)
            for measure in self._terms.measures
        ]
        return judge_measures(comparisons).verdict

    def _strata(self, measure: Measure, part: float) -> Strata:
        stable, candidate = self._values[measure.name]
        return {
            number: Stratum(
                _moments(of_stable[: round(len(of_stable) * part)], measure.is_share),
                _moments(of_candidate[: round(len(of_candidate) * part)], measure.is_share),
            )
            for number, (of_stable, of_candidate) in enumerate(zip(stable, candidate, strict=True))
        }


def roll_out(rng: np.random.Generator, case: Case, terms: AnalysisTerms) -> str:
    """promoted, rejected, or undecided."""
    for share in SHARES:
        step = _Step(rng, case, share, terms)
        verdict = Verdict.UNDECIDED
        for look in range(1, NUM_LOOKS + 1):
            verdict = step.verdict(look / NUM_LOOKS)
            if verdict is not Verdict.UNDECIDED:
                break
        if verdict is Verdict.REJECT:
            return "rejected"
        if verdict is Verdict.UNDECIDED:
            return "undecided"
    return "promoted"


def try_cases(
    cases: list[Case], num_rollouts: int, seed: int
) -> Iterator[tuple[Case, Counter[str]]]:
    """What became of each kind."""
    terms = AnalysisTerms(num_steps=len(SHARES))
    for number, case in enumerate(cases):
        rng = np.random.default_rng([seed, number])
        yield case, Counter(roll_out(rng, case, terms) for _ in range(num_rollouts))


def _share(number: int, of: int) -> str:
    interval = binomtest(number, of).proportion_ci(method="wilson")
    return f"{number / of:6.1%} ({interval.low:5.1%} to {interval.high:6.1%})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=float, nargs="+", default=[0, 1, 2, 3, 5, 7, 10])
    parser.add_argument(
        "--requests", type=int, nargs="+", default=[1000, 4000, 16000],
        help="of the candidate, in each step",
    )  # fmt: skip
    parser.add_argument("--rollouts", type=int, default=96, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cases = [
        Case(points=points, num_requests=number)
        for points in arguments.points
        for number in arguments.requests
    ]
    print(f"{len(cases) * arguments.rollouts} rollouts, {arguments.rollouts} of each kind")
    print(f"{'worse by':>9} {'requests':>9}  {'rejected':<26} {'undecided':<26} promoted")
    for case, became in try_cases(cases, arguments.rollouts, arguments.seed):
        num = became.total()
        print(
            f"{case.points:>5g} pt. {case.num_requests:>9}  {_share(became['rejected'], num)}"
            f"   {_share(became['undecided'], num)}   {_share(became['promoted'], num)}",
            flush=True,
        )


if __name__ == "__main__":
    main()
