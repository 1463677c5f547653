"""What is kept of a contract under overload: one policy of promises, and the best static limits.

Four simulated replicas whose steps cost what was fitted to the native engine, twice and five times
as many requests as they can answer, in three shapes (`ops/overload/conditions.py`). The adaptive
policy is `ops/examples/overload/start-here.yaml`, the same for all of them; the static ones know
`max_active_per_replica` and `max_queue`, the same classes and priorities. Each pair of a grid is
tried on the same traffic, and those that did best with the first seed on all seeds; the best of
them is chosen with hindsight, by its attainment, for each shape and overload by itself.

    attainment   in contract, of all that were offered: a refusal is out of contract
    goodput      answers in contract a second, and their tokens, prompt and output: who answers
                 short requests alone has more of the former

The load is a multiple of the capacity: what the fleet answers in a second with all slots of its
engines, whatever the contract. Requests in the middle of a run are counted. Each rejection and
each end of an admitted request that is no answer must have a status, a reason and, where it is to
be tried again, a Retry-After; those that have not are counted, and so is that every request was
rejected or admitted.

    .venv/bin/python ops/bench/bench_overload.py
    .venv/bin/python ops/bench/bench_overload.py --seeds 3 --shapes steady --overloads 2
"""

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from dataplane.policy import AdmissionPolicyTerms, DegradeTerms, OverloadTerms
from ops.overload.conditions import (
    SHAPES,
    Conditions,
    adaptive_terms,
    make_scenario,
    static_terms,
)
from ops.overload.trial import Outcome, run_trial

ACTIVE = (6, 8, 10, 12, 16, 20, 24, 32)
QUEUED = (0, 1, 2, 4, 8, 16)
_NUM_KEPT = 3
"""Of the pairs of the grid, after the first seed."""
_SATURATED_RATE = 40.0
"""Requests a second: more than the fleet can answer of any shape."""


def measure_capacity(shape: str, seconds: float) -> float:
    """Answers a second, with every slot of every engine in use."""
    conditions = Conditions(
        shape=shape, requests_per_second=_SATURATED_RATE, seed=0, counted_seconds=seconds
    )
    scheduler = make_scenario(conditions, adaptive_terms()).replicas[0].scheduler
    outcome = run_trial(conditions, static_terms(scheduler.max_num_seqs, max_queue=8))
    return outcome.answered_per_second


def variants() -> dict[str, AdmissionPolicyTerms]:
    """The document, and what more it may ask for."""
    plain = adaptive_terms()
    overload = plain.overload or OverloadTerms()
    degrade = DegradeTerms(queue_age_seconds=1.0, max_tokens=32)
    return {
        "adaptive": plain,
        "  and sheds batch": replace(plain, overload=replace(overload, shed=("batch",))),
        "  and degrades": replace(plain, overload=replace(overload, degrade=degrade)),
    }


def median(outcomes: Sequence[Outcome]) -> float:
    """Of their attainment."""
    return statistics.median(each.attainment for each in outcomes)


def sweep(runs: Sequence[Conditions]) -> dict[tuple[int, int], list[Outcome]]:
    """Every pair of the grid on the first run, and the best of them on all."""
    first = {
        (active, queued): run_trial(runs[0], static_terms(active, queued))
        for active in ACTIVE
        for queued in QUEUED
    }
    kept = sorted(first, key=lambda limits: -first[limits].attainment)[:_NUM_KEPT]
    return {
        limits: [first[limits], *(run_trial(each, static_terms(*limits)) for each in runs[1:])]
        for limits in kept
    }


def spread(values: Sequence[float], unit: float = 1.0) -> str:
    """Median and range."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{unit * middle:6.2f} ({unit * low:.2f} to {unit * high:.2f})"


def tell(name: str, outcomes: Sequence[Outcome], best: float) -> None:
    """One line."""
    share = f"{100 * median(outcomes) / best:4.0f} % of the best" if best else "nothing to compare"
    told = [f"attainment {spread([each.attainment for each in outcomes], 100)} %"]
    for class_name in sorted({name for each in outcomes for name in each.attainment_by_class}):
        by_class = [each.attainment_by_class for each in outcomes]
        shares = [each[class_name] for each in by_class if class_name in each]
        told.append(f"{class_name} {100 * statistics.median(shares):.1f} %")
    goodput = statistics.median(each.goodput_per_second for each in outcomes)
    tokens = statistics.median(each.good_tokens_per_second for each in outcomes)
    told.append(f"goodput {goodput:.2f}/s, {tokens:.0f} tokens/s")
    sys.stdout.write(f"  {name:22} {share}  {'  '.join(told)}\n")
    sys.stdout.flush()


def tell_answers(outcomes: Sequence[Outcome]) -> None:
    """How those were told who got no answer."""
    kinds: Counter[str] = Counter()
    for each in outcomes:
        kinds += each.answers.num_by_kind
    num_offered = sum(each.num_offered for each in outcomes)
    num_rejected = sum(each.num_rejected for each in outcomes)
    num_admitted = sum(each.num_admitted for each in outcomes)
    told = ", ".join(f"{number} {kind}" for kind, number in kinds.most_common())
    sys.stdout.write(
        f"  {num_offered} offered = {num_rejected} rejected + {num_admitted} admitted, of which "
        f"{sum(each.num_answered for each in outcomes)} were answered; not: {told}; "
        f"{sum(each.answers.num_unanswered for each in outcomes)} of these without status, reason "
        f"or Retry-After\n"
    )


def compare(shape: str, times: int, capacity: float, options: argparse.Namespace) -> float | None:
    """One shape at one overload; the share of the best static attainment that is reached. None:
    no static limits keep anything of the contract, and there is nothing to compare with."""
    rate = times * capacity
    runs = [
        Conditions(
            shape=shape, requests_per_second=rate, seed=seed, counted_seconds=options.seconds
        )
        for seed in range(1, options.seeds + 1)
    ]
    sys.stdout.write(f"{shape}, {times} x {capacity:.2f} requests/s\n")
    static = sweep(runs)
    best = max(static, key=lambda limits: median(static[limits]))
    of_best = median(static[best])
    tell(f"static {best[0]} active, {best[1]} queued", static[best], of_best)
    adaptive: list[Outcome] = []
    for name, terms in variants().items():
        outcomes = [run_trial(each, terms) for each in runs]
        tell(name, outcomes, of_best)
        adaptive = adaptive or outcomes
    tell_answers(adaptive)
    return median(adaptive) / of_best if of_best else None


def main() -> None:
    """Measure, and print. Exit code 1 where less than 95 % is reached anywhere."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--overloads", nargs="+", type=int, default=[2, 5], help="times capacity")
    parser.add_argument("--seconds", type=float, default=120.0, help="of virtual time, counted")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    options = parser.parse_args()
    shares = {}
    for shape in options.shapes:
        capacity = measure_capacity(shape, options.seconds)
        for times in options.overloads:
            share = compare(shape, times, capacity, options)
            if share is None:
                raise SystemExit(f"{shape} at {times} x: static limits keep nothing: no verdict")
            shares[shape, times] = share
    worst = min(shares, key=lambda each: shares[each])
    told = f"{worst[0]} at {worst[1]} x, {100 * shares[worst]:.0f} % of the best static limits"
    sys.stdout.write(f"worst: {told}\n")
    raise SystemExit(0 if shares[worst] >= 0.95 else 1)


if __name__ == "__main__":
    main()
