"""Does every request have an end on record, whatever dies meanwhile?

Starts a whole installation (control plane, gateway, two replicas of the native engine over a
tiny random model), sends it requests from clients that cancel, leave at any byte, read or send
slowly, are in a hurry or write nonsense, and meanwhile kills (SIGKILL) and restarts (SIGTERM)
every process in turn. At the end each attempt of each client must have exactly one end in the
request store, counts per minute must equal the rows, and no block, slot, file or process may be
left behind. Exit code 1 when anything is.

    .venv/bin/python ops/bench/bench_endurance.py --requests 100000 --report endurance.json
"""

import argparse
import json
import signal
import tempfile
from pathlib import Path

from ops.endurance.blows import KILLS, ROUND, long_order
from ops.endurance.run import Plan, Verdict, run

_REQUESTS_PER_ROUND = 12_000
_GAP_SECONDS = 65.0
"""The supervisor counts a process that lasted for a minute as one that stays up."""


def main() -> None:
    options = _parse()
    # Ended from outside, it must still end what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    num_rounds = options.requests // _REQUESTS_PER_ROUND
    blows = long_order(num_rounds) if num_rounds > 1 else ROUND if num_rounds else KILLS
    plan = Plan(
        num_requests=options.requests,
        blows=blows,
        gap_seconds=_GAP_SECONDS if num_rounds > 1 else 5.0,
        seed=options.seed,
        num_clients=options.clients,
    )
    if options.folder is not None:
        options.folder.mkdir(parents=True)
        verdict = run(plan, options.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
            verdict = run(plan, Path(folder))
    if options.report is not None:
        options.report.write_text(json.dumps(verdict.as_dict(), indent=2) + "\n")
    _tell(verdict)
    raise SystemExit(1 if verdict.wrong else 0)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=48, help="how many at once")
    parser.add_argument("--seed", type=int, default=1, help="of requests, blows and weights")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="where to write it all")
    parser.add_argument("--folder", type=Path, help="keep state and logs here; must not exist")
    return parser.parse_args()


def _tell(verdict: Verdict) -> None:
    accounts = verdict.accounts
    print(
        f"{accounts.num_attempts} attempts in {verdict.seconds:.0f} s "
        f"({verdict.requests_per_second:.0f}/s), {verdict.num_blows} blows: "
        + ", ".join(f"{count} {what}" for what, count in sorted(verdict.blows.items()))
    )
    print(
        f"on record: {accounts.num_recorded}; never arrived: "
        f"{sum(accounts.never_arrived.values())}; refused connections, each tried again: "
        f"{accounts.num_refusals}"
    )
    for why, count in accounts.never_arrived.items():
        print(f"  {count} {why}")
    ends = ", ".join(f"{count} {what}" for what, count in accounts.by_disposition.items())
    print(f"ends: {ends}")
    print(f"gateway counts checked {verdict.num_count_checks} times")
    print("\n".join(f"WRONG: {line}" for line in verdict.wrong) or "everything is accounted for")


if __name__ == "__main__":
    main()
