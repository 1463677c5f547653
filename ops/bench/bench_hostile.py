"""What happens to a gateway's clients when everything else is hostile?

A real gateway before replicas of the simulator, each a process of its own; six conditions, each
with what must hold all the same. Meanwhile both surfaces are scraped every tenth of a second, and
each scrape must balance (invariant 5); at the end every call has one record, and nothing is held.
Exit code 1 when anything is not so.

    .venv/bin/python ops/bench/bench_hostile.py
    .venv/bin/python ops/bench/bench_hostile.py --only stalled_replica

`jumping_clock` needs a C compiler.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ops.hostile.outcome import Outcome
from ops.hostile.scenarios import (
    flooding_tenant,
    jumping_clock,
    lying_replica,
    retry_storm,
    slow_readers,
    stalled_replica,
)

SCENARIOS: Mapping[str, Callable[[Path], Outcome]] = {
    "retry_storm": retry_storm.run,
    "flooding_tenant": flooding_tenant.run,
    "slow_readers": slow_readers.run,
    "stalled_replica": stalled_replica.run,
    "lying_replica": lying_replica.run,
    "jumping_clock": jumping_clock.run,
}


def main() -> None:
    options = _parse()
    if options.nice is not None:
        os.nice(options.nice)
    outcomes = {}
    with tempfile.TemporaryDirectory(prefix="hostile-") as scratch:
        folder = options.folder or Path(scratch)
        for name in options.only or SCENARIOS:
            began = time.monotonic()
            outcome = outcomes[name] = SCENARIOS[name](folder / name)
            outcome.figures["seconds"] = time.monotonic() - began
            _tell(name, outcome)
    if options.report is not None:
        report = {n: {"figures": o.figures, "wrong": o.wrong} for n, o in outcomes.items()}
        options.report.write_text(json.dumps(report, indent=2) + "\n")
    sys.exit(any(outcome.wrong for outcome in outcomes.values()))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=SCENARIOS, help="may be repeated")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="where to write it all")
    parser.add_argument(
        "--nice", type=int, metavar="N", help="of all processes; on a busy machine -10, as root"
    )
    parser.add_argument("--folder", type=Path, help="keep state and logs here")
    return parser.parse_args()


def _tell(name: str, outcome: Outcome) -> None:
    print(f"{name}: {'NOT WELL' if outcome.wrong else 'well'}")
    for figure, value in outcome.figures.items():
        print(f"  {figure}: {f'{value:.3f}' if isinstance(value, float) else value}")
    for line in outcome.wrong:
        print(f"  WRONG: {line}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
