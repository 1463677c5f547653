"""Does the diagnosis name what was done to a fleet, from what the fleet exports?

Each fault of the simulator is tried at three intensities with twenty seeds, besides fleets that
are well: quiet, busy, and busy with prompts of very different lengths. The diagnosis sees scrapes
of /metrics every two seconds and what gateways count, in the names of vLLM, SGLang, llama.cpp's
server or our own replica (they take turns by seed); where an engine tells of a thing in its log
alone, also that. It looks at the last 90 seconds, every ten seconds from the onset on; the answer
after a minute counts, and the first right one is the detection. Nothing names a fault to it.

    .venv/bin/python ops/bench/bench_diagnosis.py --quick
    .venv/bin/python ops/bench/bench_diagnosis.py --picture ops/bench/diagnosis.svg \\
        --json ops/bench/diagnosis.json

Goals: the right mechanism first in at least 95 % of the faults, false alarms in under 2 % of the
looks at fleets that are well, half of the faults named within 60 s of signal time.
"""

import argparse
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from controlplane.diagnosis.rules import BUILT_IN_RULES
from ops.diagnosis.outcomes import Outcome, Summary, judge, matrix, summarize
from ops.diagnosis.picture import draw
from ops.diagnosis.trials import CONTROLS, DIALECTS, FAULTS, Trial

_ALL = (*FAULTS, *CONTROLS)
_GOAL_RIGHT, _GOAL_FALSE, _GOAL_SECONDS = 0.95, 0.02, 60.0

Job = tuple[str, int, int, str]
"""Trial, level, seed, dialect."""


def main() -> None:
    options = _parse()
    jobs = list(_jobs(options))
    random.Random(0).shuffle(jobs)  # cut short, it has some of each
    began = time.monotonic()
    outcomes = _run(jobs, options.processes)
    took = time.monotonic() - began
    outcomes.sort(key=lambda each: (each.trial, each.level, each.seed, each.dialect))
    summary = summarize(outcomes)
    caption = (
        f"{len(outcomes)} runs; right first {summary.share_right:.1%}, false alarms "
        f"{summary.share_false:.1%}; percent of a row"
    )
    _print(outcomes, summary, took)
    if options.json:
        options.json.write_text(json.dumps(_as_json(outcomes, summary), indent=1) + "\n")
    if options.picture:
        draw(matrix(outcomes), _ALL, options.picture, caption)


def _run(jobs: Sequence[Job], num_processes: int) -> list[Outcome]:
    """Cut short from outside it gives what it has."""
    outcomes: list[Outcome] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with multiprocessing.get_context("spawn").Pool(num_processes) as pool:
        try:
            for number, outcome in enumerate(pool.imap_unordered(_judge, jobs), start=1):
                outcomes.append(outcome)
                if number % 50 == 0:
                    print(f"{number} of {len(jobs)} runs", flush=True)
        except KeyboardInterrupt:
            print(f"cut short after {len(outcomes)} of {len(jobs)} runs", flush=True)
    return outcomes


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one seed of each, in a minute")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--trial", action="append", help="only this one; may be repeated")
    parser.add_argument("--dialect", choices=DIALECTS, help="only this one; default: by turns")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    return parser.parse_args()


def _jobs(options: argparse.Namespace) -> Iterator[Job]:
    trials = [each for each in _ALL if not options.trial or each.name in options.trial]
    strangers = set(options.trial or ()) - {each.name for each in _ALL}
    if strangers:
        known = ", ".join(each.name for each in _ALL)
        raise SystemExit(f"There is no trial {', '.join(sorted(strangers))}. There are: {known}")
    for position, trial in enumerate(trials):
        for level in range(len(trial.levels)):
            if options.quick and level != len(trial.levels) // 2:
                continue
            for index in range(1 if options.quick else options.seeds):
                seed = options.first_seed + index
                turn = position + level + seed
                dialect = options.dialect or DIALECTS[turn % len(DIALECTS)]
                yield trial.name, level, seed, dialect


def _judge(job: Job) -> Outcome:
    name, level, seed, dialect = job
    return judge(_find(name), level, seed, dialect, BUILT_IN_RULES)


def _find(name: str) -> Trial:
    return next(each for each in _ALL if each.name == name)


def _print(outcomes: Sequence[Outcome], summary: Summary, took: float) -> None:
    print(f"\n{'trial':<20}{'right':>7}{'median':>8}  answers after a minute")
    for trial in _ALL:
        own = [each for each in outcomes if each.trial == trial.name and each.is_seen]
        if own:
            print(_line(trial, own))
    unseen = [each for each in outcomes if not each.is_seen]
    if unseen:
        print(
            f"{len(unseen)} runs whose dialect exports nothing of the fault are not in these rows; "
            f"{summary.wrong_where_unseen:.0%} of them were given another cause"
        )
    detection = summary.median_detection_seconds
    print(
        f"\nright mechanism first   {summary.share_right:.1%} of {summary.num_faults} faults "
        f"(goal {_GOAL_RIGHT:.0%})\n"
        f"false alarms            {summary.share_false:.1%} of {summary.num_windows} looks at "
        f"fleets that are well (goal under {_GOAL_FALSE:.0%}); {summary.share_healthy:.1%} say "
        f"healthy\n"
        f"median detection        "
        f"{'never' if detection is None else f'{detection:g} s'} of signal time "
        f"(goal under {_GOAL_SECONDS:g} s)\n"
        f"took {took:.0f} s"
    )


def _line(trial: Trial, own: Sequence[Outcome]) -> str:
    rows = matrix(own)[trial.name]
    times = sorted(
        float("inf") if each.detected_after is None else each.detected_after for each in own
    )
    middle = times[len(times) // 2]
    told = ", ".join(f"{answer} {count}" for answer, count in sorted(
        rows.items(), key=lambda pair: -pair[1]
    ))  # fmt: skip
    seconds = "-" if middle == float("inf") else f"{middle:g} s"
    right = sum(each.is_right for each in own) / len(own)
    return f"{trial.name:<20}{right:>7.0%}{seconds:>8}  {told}"


def _as_json(outcomes: Sequence[Outcome], summary: Summary) -> dict[str, object]:
    return {
        "summary": asdict(summary),
        "matrix": matrix(outcomes),
        "notes": {trial.name: trial.note for trial in _ALL if trial.note},
        "runs": [
            {
                "trial": each.trial,
                "level": each.level,
                "seed": each.seed,
                "dialect": each.dialect,
                "is_seen": each.is_seen,
                "right": list(each.right),
                "answer": each.last.mechanism,
                "second": each.last.second,
                "detected_after": each.detected_after,
                "evidence": list(each.last.evidence),
            }
            for each in outcomes
        ],
    }


if __name__ == "__main__":
    main()
