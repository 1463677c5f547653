"""How fast does a gateway say no, when five times as much comes as can be done?

    .venv/bin/python ops/bench/bench_refusals.py --quick
    .venv/bin/python ops/bench/bench_refusals.py --factors 1 2 5 --report refusals.json

A stub engine with few slots, the real gateway before it (started by its own command, records and
all), and a policy with every bound that there is: two classes with deadlines, one of which is
shed for the other, a queue bounded in requests, tokens, bytes and age, a tenant that floods and
may have one request at a time, and a retry budget. Callers of three tenants send prompts of
several lengths, open loop. Measured is the time from the last byte of a request's body to the
last one of its refusal, of all that are refused on arrival: p50 and p99; goal p99 <= 10 ms. Those
that were let in and waited in vain are told apart by their records. Every refusal must have a
reason, the policy's revision, a Retry-After and a record, and nobody may be left unanswered: exit
code 1 when anything of that is missing.
"""

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

from ops.bench.hot_path.arrivals import Arrivals
from ops.bench.hot_path.gateway_under_test import gateway_running
from ops.bench.hot_path.machine import choose_cores, load_average, on_core, raise_priority
from ops.bench.hot_path.overload_run import OverloadPlan, measure_overload, tell_spread
from ops.bench.hot_path.overload_terms import TENANTS, OverloadTermsOfRun, overload_policy
from ops.bench.hot_path.refusals import GOAL_P99_MS, Refusals
from ops.bench.hot_path.server_process import NotStartedError, announced
from ops.bench.hot_path.subjects import Pace


def main() -> None:
    """Measure, print, and write the report."""
    options = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started
    print(raise_priority(options.nice))
    before = load_average()
    with tempfile.TemporaryDirectory(prefix="bench-refusals-") as folder:
        try:
            runs = _measure(_plan_of(options), Path(folder))
        except NotStartedError as error:
            raise SystemExit(str(error)) from error
    loads = [before, load_average()]
    for factor in options.factors:
        print(tell_spread(runs, factor))
    is_sound = all(run.is_sound for run in runs)
    print("every refusal whole, nobody unanswered" if is_sound else "NOT every refusal is whole")
    print(f"goal p99 <= {GOAL_P99_MS:g} ms; load average {loads[0]:.2f} to {loads[1]:.2f}")
    if options.report is not None:
        report: dict[str, Any] = {
            "command": sys.argv[1:],
            "load_average": loads,
            "runs": [asdict(run) for run in runs],
        }
        options.report.write_text(json.dumps(report, indent=2) + "\n")
    raise SystemExit(0 if is_sound else 1)


def _measure(plan: OverloadPlan, folder: Path) -> list[Refusals]:
    cores = choose_cores()
    terms = plan.terms
    print(
        f"{cores.tell()}; {terms.num_slots} slots serve {plan.capacity:.1f} streams/s; load "
        f"average {load_average():.2f}",
        flush=True,
    )
    options = [*plan.pace.options(), "--slots", str(terms.num_slots)]
    with (
        announced("stub", "stub_engine", options, cores.server, folder) as (_, at),
        gateway_running(
            at["replica"],
            cores,
            folder,
            policy=overload_policy(terms),
            tenants=TENANTS,
            keeps_ends=True,
        ) as gateway,
        on_core(cores.client),
    ):
        return uvloop.run(measure_overload(gateway, plan, lambda line: print(line, flush=True)))


def _plan_of(options: argparse.Namespace) -> OverloadPlan:
    pace = Pace(num_chunks=options.chunks, seconds=options.pace_ms / 1e3)
    return OverloadPlan(
        factors=options.factors,
        seconds=options.seconds or (5.0 if options.quick else 10.0),
        num_rounds=options.rounds or (2 if options.quick else 5),
        contract_seconds=options.contract_seconds,
        arrivals=options.arrivals,
        pace=pace,
        terms=OverloadTermsOfRun(
            num_slots=options.slots,
            queue_seconds=options.queue_seconds,
            prompt_chars=options.prompt_chars,
            max_tokens=options.chunks,
        ),
    )


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--factors", type=float, nargs="+", default=[1.0, 5.0])
    parser.add_argument("--rounds", type=int, help="[5]")
    parser.add_argument("--seconds", type=float, help="of each load in each round [10]")
    parser.add_argument("--slots", type=int, default=8, help="of the stub")
    parser.add_argument("--queue-seconds", type=float, default=0.5, help="the nearer deadline")
    parser.add_argument(
        "--contract-seconds", type=float, default=1.0, help="by when a first text is in time"
    )
    parser.add_argument(
        "--prompt-chars",
        type=int,
        nargs="+",
        default=[100, 2000, 20_000],
        help="lengths of prompts; about a token each, since the tokenizer's vocabulary is bytes",
    )
    parser.add_argument("--chunks", type=int, default=64, help="of an answer")
    parser.add_argument("--pace-ms", type=float, default=5.0, help="from chunk to chunk")
    parser.add_argument(
        "--arrivals", type=Arrivals, choices=list(Arrivals), default=Arrivals.POISSON
    )
    parser.add_argument(
        "--nice", type=int, default=0, help="below 0: less disturbed; root alone may"
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="where to write it all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
