"""A thousand random fleets with faults of all kinds, and what must hold of each at random moments.

    python -m ops.endurance.random_fleet --scenarios 1000

Small replicas with few blocks; clients that leave, read slowly, stop reading and come again;
replicas that start, stall, drain, die and are started again; phases, drafts, weights over a link,
several answers, gateways that take their time; one fault or two of the 21 kinds; and an exporter
of some dialect at each replica. What is checked of it stands in `fleet_watch`, `cache_watch`,
`record_watch` and `exporter_watch`. Each fleet runs twice, once with nobody who looks on: both
come to the same.

A scenario is its number: `--first 17 --scenarios 1` runs number 17 again. Of one that fails the
smallest part is looked for that fails likewise, and the command that repeats it is printed.
"""

import argparse
import sys
import traceback
from collections import Counter
from dataclasses import dataclass

from ops.endurance.case_run import CaseRun, run_twice
from ops.endurance.case_shrinking import shrink
from ops.endurance.random_case import RandomCase


@dataclass(frozen=True, slots=True)
class Failure:
    """A case that fails, as small as it gets, and how it does."""

    case: RandomCase
    error: Exception

    def __str__(self) -> str:
        told = "".join(traceback.format_exception(self.error))
        what = ", ".join(type(fault).__name__ for fault in self.case.faults()) or "no fault"
        return f"{told}scenario {self.case.number} fails ({what}); {command_for(self.case)}\n"


def command_for(case: RandomCase) -> str:
    """Runs this case alone."""
    left_out = "".join(f" --without {part}" for part in sorted(case.without))
    return f"python -m ops.endurance.random_fleet --first {case.number} --scenarios 1{left_out}"


def failure_of(case: RandomCase) -> Exception | None:
    """How it fails; None where all holds."""
    outcome = attempt(case)
    return None if isinstance(outcome, CaseRun) else outcome


def attempt(case: RandomCase) -> CaseRun | Exception:
    """The run, or how it failed: an invariant, or whatever else the simulator raised."""
    try:
        return run_twice(case)
    except Exception as error:  # noqa: BLE001
        return error


def find_failure(case: RandomCase, met: Counter[str]) -> Failure | None:
    """Run a case and count what it met; of one that fails, look for the smallest."""
    outcome = attempt(case)
    if isinstance(outcome, CaseRun):
        count(outcome, met)
        return None
    smallest = shrink(case, outcome, failure_of)
    return Failure(smallest, failure_of(smallest) or outcome)


def count(run: CaseRun, met: Counter[str]) -> None:
    """Add up what was met."""
    fleet = run.fleet
    met["looks"] += run.watch.num_checks
    met["scrapes"] += 0 if run.exporters is None else run.exporters.num_scrapes
    met["without an end"] += bool(run.waits)
    met["transfers"] += 0 if fleet.phases is None else fleet.phases.counts.num_transfers
    met.update(type(fault).__name__ for fault in run.plan.faults)
    for results in fleet.results.by_class.values():
        met["preemptions"] += results.num_preemptions
        met.update({str(key): value for key, value in results.num_by_disposition.items()})


def main() -> None:
    """Run them, and print what was met and what failed. Exit code 1 where something did."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scenarios", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="PART",
        help="leave out a part of each: strikes, exporters, fault-1, phases, ...",
    )
    options = parser.parse_args()
    met: Counter[str] = Counter()
    num_failures = 0
    for number in range(options.first, options.first + options.scenarios):
        case = RandomCase(number=number, without=frozenset(options.without))
        failure = find_failure(case, met)
        if failure is not None:
            num_failures += 1
            sys.stdout.write(str(failure))
            sys.stdout.flush()
    told = ", ".join(f"{number} {what}" for what, number in met.items())
    sys.stdout.write(
        f"{options.scenarios - num_failures} of {options.scenarios} scenarios hold: {told}\n"
    )
    raise SystemExit(1 if num_failures else 0)


if __name__ == "__main__":
    main()
