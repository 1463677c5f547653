"""Does the fitted simulator predict the native engine on traffic that it was not fitted on?

Starts the real engine (the demo model, one CPU thread) behind a real gateway and takes the full
record of every request:

    crowds   64 requests at once of the training's lengths, then of the test's: what the replica
             can do of each
    rounds   test traffic at 30 % and at 87 % of that, and before each of them training traffic,
             at rates that take turns; other seeds each time

Training and test take turns so that a machine that is slow for a minute is so for both. The fit
is of the training alone: other lengths, rates and requests. The arrivals of each test (times and
token counts) are then simulated, on the real scheduler with the engine's own bounds behind the
gateway's own queue. Prints the fit's residuals and one table, writes one picture. Goal: within
10 % at light load, 20 % near saturation.

    .venv/bin/python ops/bench/bench_simulator_fit.py --keep /tmp/fit-run
    .venv/bin/python ops/bench/bench_simulator_fit.py --again /tmp/fit-run \\
        --picture ops/bench/simulator_fit.svg

It wants a machine with nothing else to do. --keep saves all records; --again fits and compares
those once more, and starts nothing.
"""

import argparse
import signal
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dataplane.simulation.fitting.document import Fit, save_fit
from dataplane.simulation.fitting.fit import fit_records, this_machine
from dataplane.simulation.fitting.steps import observe_steps
from ops.calibration.comparison import FIGURES, Comparison, compare
from ops.calibration.measurement import (
    LOADS,
    Facts,
    Plan,
    measure,
    numbered_anew,
    read_facts,
    read_run,
    run_names,
)
from ops.calibration.picture import draw

_GOALS = {"light": 0.10, "near": 0.20}


def main() -> None:
    options = _parse()
    # Ended from outside, it must still end what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.again is not None:
        folder = options.again
    elif options.keep is not None:
        folder = options.keep
        folder.mkdir(parents=True)
    else:
        folder = Path(tempfile.mkdtemp(prefix="simulator-fit-"))
    if options.again is None:
        measure(folder, _plan(options), lambda line: print(line, flush=True))
    _judge(folder, options)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=50.0, help="of each round and load")
    parser.add_argument("--training-seconds", type=float, default=25.0, help="before each")
    parser.add_argument("--threads", type=int, default=1, help="of the engine")
    parser.add_argument("--max-num-seqs", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="must not exist")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="what --keep has kept")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg")
    return parser.parse_args()


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        num_rounds=options.rounds,
        test_seconds=options.seconds,
        training_seconds=options.training_seconds,
        num_threads=options.threads,
        max_num_seqs=options.max_num_seqs,
        seed=options.seed,
    )


def _judge(folder: Path, options: argparse.Namespace) -> None:
    facts = read_facts(folder)
    training = numbered_anew(folder, run_names(folder, "training"))
    fit = fit_records(training, this_machine(), [facts.stages])
    save_fit(fit, folder / "fit.json")
    everything = observe_steps(numbered_anew(folder, run_names(folder, "")))
    print(f"steps put together: {len(everything.steps)}; by the engine's count: {facts.num_steps}")
    _tell_fit(fit)
    comparisons = [
        compare(load, read_run(folder, name), fit, facts.bounds, options.seed)
        for load in LOADS
        for name in run_names(folder, load)
    ]
    if not comparisons:
        raise SystemExit(f"{folder} holds no rounds")
    _tell_table(comparisons, facts)
    picture = options.picture or folder / "simulator_fit.svg"
    caption = f"saturation {facts.saturation_per_s:.2f} requests/s; {fit.machine.processor}"
    draw(comparisons, picture, caption)
    print(f"all records and the fit are in {folder}, the picture is {picture}")


def _tell_fit(fit: Fit) -> None:
    print(
        f"fitted to {fit.num_steps_used} steps of {fit.num_steps} seen in {fit.num_requests} "
        f"requests"
    )
    print("steps that were not fitted:   median   p90     bias")
    for each in fit.residuals:
        print(
            f"  {each.steps:12} {each.num_steps:6}    {each.median:7.1%} {each.p90:7.1%} "
            f"{each.bias:+7.1%}"
        )


def _tell_table(comparisons: Sequence[Comparison], facts: Facts) -> None:
    print(f"saturation {facts.saturation_per_s:.2f} requests/s; medians of rounds, with range")
    print(f"{'load':6} {'figure':12} {'measured':>10} {'predicted':>10} {'error':>8}  of rounds")
    for load, goal in _GOALS.items():
        rounds = [each for each in comparisons if each.load == load]
        if not rounds:
            continue
        for index, figure in enumerate(FIGURES):
            measured = statistics.median(each.measured.figures[index] for each in rounds)
            predicted = statistics.median(each.predicted[index] for each in rounds)
            errors = sorted(each.errors[index] for each in rounds)
            error = statistics.median(errors)
            mark = "" if abs(error) <= goal else f"  beyond {goal:.0%}"
            unit = 1 if figure == "completed/s" else 1e3
            print(
                f"{load:6} {figure:12} {measured * unit:10.2f} {predicted * unit:10.2f} "
                f"{error:+8.1%}  {errors[0]:+.1%} to {errors[-1]:+.1%}{mark}"
            )
    print("times in ms, at the server's boundary")


if __name__ == "__main__":
    main()
