"""How often the analysis of rollouts catches a regression, and how often it aborts what is good.

    .venv/bin/python ops/bench/bench_rollouts.py
    .venv/bin/python ops/bench/bench_rollouts.py --rollouts 100 --points 0 5 --requests 4000
    .venv/bin/python ops/bench/bench_rollouts.py --worse-in failures
    .venv/bin/python ops/bench/bench_rollouts.py --markdown ops/bench/rollouts.md

Each simulated rollout gives a candidate 5, 25 and 50 % of the traffic. Requests are of two classes
and four lengths of prompts, each with an attainment of its own, answers of any length, and times to
the first token and of tokens that are spread as those of real engines are; the candidate's
attainment is lower by some points everywhere (`--worse-in failures`: more of them fail), and
nothing else differs. The contract promises each
class about twice the misses that the stable arm has, and availability (`--without-contract`: it
promises nothing, and measures alone decide). The arms are judged anew after every tenth of the
requests of a step, all measures and promises together, by what judges real rollouts. Rejected is
aborted at once; promoted all three times is promoted; and what is undecided when the requests of a
step are over waits for a person. A regression is caught by either of these. Intervals are Wilson's,
95 %.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

from controlplane.rollouts.analysis.comparison import AnalysisTerms, compare
from controlplane.rollouts.analysis.difference import Stratum
from controlplane.rollouts.analysis.measures import Measure
from controlplane.rollouts.analysis.moments import Moments
from controlplane.rollouts.analysis.standing import (
    Standing,
    StandingTerms,
    find_standings,
)
from controlplane.rollouts.analysis.step import judge_step
from controlplane.rollouts.analysis.tally import Kept, PromiseKey, Strata
from controlplane.rollouts.verdict import Decision, Verdict
from controlplane.slo.promised import Promise
from dataplane.arm import Arm

SHARES = (0.05, 0.25, 0.5)
NUM_LOOKS = 10
ATTAINMENT = (0.999, 0.99, 0.985, 0.97, 0.99, 0.98, 0.96, 0.93)
"""Of the stable arm, by class and length of prompt."""
OFTEN = (0.2, 0.2, 0.15, 0.1, 0.1, 0.1, 0.1, 0.05)
"""How often each of them comes."""
CLASSES = {"interactive": slice(0, 4), "batch": slice(4, 8)}
"""Which of these are whose."""
_OF_SHARES = {"failures": 0.002, "cut": 0.2, "empty": 0.001}
_SPREADS = {"answer_length": 1.0, "ttft": 0.6, "tpot": 0.25}
"""Standard deviation of the logarithm among requests that are alike."""
_TOGETHER, _AVAILABILITY = "together", "availability"
_TARGETS = {
    "interactive": {_TOGETHER: 0.98, _AVAILABILITY: 0.995},
    "batch": {_TOGETHER: 0.94, _AVAILABILITY: 0.995},
}
_PROMISES = tuple(
    Promise(
        deployment="chat",
        request_class=request_class,
        objective=objective,
        at_most_seconds=None,
        target=target,
        period_seconds=30 * 86400,
        contract_revision="chat@1",
    )
    for request_class, of_class in _TARGETS.items()
    for objective, target in of_class.items()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kind of rollout."""

    points: float
    """By which the candidate is worse, in points of a hundred."""
    num_requests: int
    """Of the candidate, in each step, at most."""
    worse_in: str = "attainment"
    """Or failures."""

    def worse_by(self, measure: Measure) -> float:
        """In shares, 0 to 1."""
        return self.points / 100 if measure.name == self.worse_in else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of one rollout."""

    verdict: Verdict
    step: int
    """In which it ended, from 0."""
    num_seen: int
    """Requests of the candidate in that step until then."""
    by_contract: bool
    """A promise turned it, and no measure."""


def _values(
    rng: np.random.Generator, measure: Measure, stratum: int, num: int, worse: float
) -> np.ndarray:
    """Of one measure for `num` requests, in the order in which they end."""
    if measure.name in _SPREADS:
        return rng.normal(0.0, _SPREADS[measure.name], num)
    share = _OF_SHARES.get(measure.name, ATTAINMENT[stratum])
    share += worse if measure.more_is_worse else -worse
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

    def __init__(
        self,
        rng: np.random.Generator,
        case: Case,
        share: float,
        terms: AnalysisTerms,
        promises: Sequence[Promise],
    ) -> None:
        self._terms, self._promises = terms, promises
        num_stable = int(case.num_requests * (1 - share) / share)
        self._counts = [rng.multinomial(num, OFTEN) for num in (num_stable, case.num_requests)]
        self._values = {
            measure.name: [
                [
                    _values(rng, measure, stratum, int(num), worse)
                    for stratum, num in enumerate(counts)
                ]
                for counts, worse in zip(self._counts, (0.0, case.worse_by(measure)), strict=True)
            ]
            for measure in terms.measures
        }

    def judge(self, part: float) -> Decision:
        """Once that part of it has ended."""
        comparisons = [
            compare(self._strata(measure, part), measure, self._terms)
            for measure in self._terms.measures
        ]
        return judge_step(comparisons, self._standings(part))

    def _standings(self, part: float) -> list[Standing]:
        of_objective = {_TOGETHER: "attainment", _AVAILABILITY: "failures"}
        counted: dict[PromiseKey, dict[Arm, Kept]] = {
            (each.contract_revision, each.request_class, each.objective): {
                arm: self._kept(of_objective[each.objective], each.request_class, arm, part)
                for arm in Arm
            }
            for each in self._promises
        }
        terms = StandingTerms(alpha=self._terms.alpha, max_burn_rate=self._terms.max_burn_rate)
        return find_standings(counted, self._promises, terms)

    def _kept(self, measure: str, request_class: str, arm: Arm, part: float) -> Kept:
        seen = [
            values[: round(len(values) * part)]
            for values in self._values[measure][arm is Arm.CANDIDATE][CLASSES[request_class]]
        ]
        num = sum(len(values) for values in seen)
        num_that_have_it = int(sum(values.sum() for values in seen))
        is_bad = measure == "failures"
        return Kept(num, num_that_have_it if is_bad else num - num_that_have_it)

    def _strata(self, measure: Measure, part: float) -> Strata:
        stable, candidate = self._values[measure.name]
        return {
            number: Stratum(
                _moments(of_stable[: round(len(of_stable) * part)], measure.is_share),
                _moments(of_candidate[: round(len(of_candidate) * part)], measure.is_share),
            )
            for number, (of_stable, of_candidate) in enumerate(zip(stable, candidate, strict=True))
        }


def roll_out(
    rng: np.random.Generator, case: Case, terms: AnalysisTerms, promises: Sequence[Promise]
) -> Ended:
    """One rollout from its first step to its end."""
    ended = _end_step(rng, case, terms, promises, 0)
    while ended.verdict is Verdict.PROMOTE and ended.step + 1 < len(SHARES):
        ended = _end_step(rng, case, terms, promises, ended.step + 1)
    return ended


def _end_step(
    rng: np.random.Generator,
    case: Case,
    terms: AnalysisTerms,
    promises: Sequence[Promise],
    number: int,
) -> Ended:
    step = _Step(rng, case, SHARES[number], terms, promises)
    for look in range(1, NUM_LOOKS + 1):
        decision = step.judge(look / NUM_LOOKS)
        if decision.verdict is not Verdict.UNDECIDED:
            break
    turned_by = None if decision.deciding is None else decision.deciding.metric
    return Ended(
        verdict=decision.verdict,
        step=number,
        num_seen=case.num_requests * look // NUM_LOOKS,
        by_contract=turned_by in {promise.name for promise in promises},
    )


def try_cases(
    cases: list[Case], num_rollouts: int, seed: int, promises: Sequence[Promise] = _PROMISES
) -> Iterator[tuple[Case, list[Ended]]]:
    """What became of each kind."""
    terms = AnalysisTerms(num_steps=len(SHARES))
    for number, case in enumerate(cases):
        rng = np.random.default_rng([seed, number])
        yield case, [roll_out(rng, case, terms, promises) for _ in range(num_rollouts)]


def _share(number: int, of: int) -> str:
    interval = binomtest(number, of).proportion_ci(method="wilson")
    return f"{number / of:.1%} ({interval.low:.1%} to {interval.high:.1%})"


_HEAD = (
    "worse in", "by", "requests a step", "rejected", "undecided", "promoted",
    "rejected at step 1, 2, 3", "after requests of that step", "by a promise alone",
)  # fmt: skip


def row_of(case: Case, ended: Sequence[Ended]) -> tuple[str, ...]:
    """As the table has it."""
    rejected = [each for each in ended if each.verdict is Verdict.REJECT]
    shares = [
        _share(sum(each.verdict is verdict for each in ended), len(ended))
        for verdict in (Verdict.REJECT, Verdict.UNDECIDED, Verdict.PROMOTE)
    ]
    of_steps = [str(sum(each.step == step for each in rejected)) for step in range(len(SHARES))]
    seen = sorted(each.num_seen for each in rejected)
    told = f"{np.median(seen):g} ({seen[0]:g} to {seen[-1]:g})" if seen else ""
    by_contract = sum(each.by_contract for each in rejected)
    return (
        case.worse_in, f"{case.points:g} points", f"{case.num_requests}", *shares,
        ", ".join(of_steps), told, f"{by_contract}",
    )  # fmt: skip


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _introduction(options: argparse.Namespace) -> str:
    without = " --without-contract" if options.without_contract else ""
    return (
        "# What the analysis of rollouts catches, and what it aborts\n\n"
        "Made by `.venv/bin/python ops/bench/bench_rollouts.py --rollouts "
        f"{options.rollouts} --seed {options.seed} --worse-in {' '.join(options.worse_in)}{without}"
        f" --markdown {options.markdown}`: "
        f"{options.rollouts} simulated rollouts of each kind, judged ten times in each of three "
        "steps of 5, 25 and 50 %.\nThe candidate is worse by so many points in one thing; requests "
        "are the candidate's, in each step. Undecided waits for a person. Intervals are Wilson's, "
        "95 %;\nrequests until a rejection are the median and the range. What is simulated is said "
        "in the bench.\n\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=float, nargs="+", default=[0, 1, 2, 3, 5, 7, 10])
    parser.add_argument(
        "--requests", type=int, nargs="+", default=[1000, 4000, 16000],
        help="of the candidate, in each step",
    )  # fmt: skip
    parser.add_argument("--rollouts", type=int, default=96, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--worse-in", choices=["attainment", "failures"], nargs="+", default=["attainment"]
    )
    parser.add_argument(
        "--without-contract", action="store_true", help="measures alone decide, and no promise"
    )
    parser.add_argument("--markdown", type=Path, help="write the table there")
    options = parser.parse_args()
    cases = [
        Case(points=points, num_requests=number, worse_in=worse_in)
        for worse_in in options.worse_in
        for points in options.points
        for number in options.requests
    ]
    rows = [_HEAD, ("---",) * len(_HEAD)]
    print(_markdown(rows), end="", flush=True)
    promises = () if options.without_contract else _PROMISES
    for case, ended in try_cases(cases, options.rollouts, options.seed, promises):
        rows.append(row_of(case, ended))
        print(_markdown(rows[-1:]), end="", flush=True)
    if options.markdown is not None:
        options.markdown.write_text(_introduction(options) + _markdown(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
