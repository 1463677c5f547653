"""Does every request have an end on record, whatever dies meanwhile?

Starts a whole installation (control plane, gateway, two replicas of the native engine over a
tiny random model), sends it requests from clients that cancel, leave at any byte, read or send
slowly, are in a hurry or write nonsense, and meanwhile kills (SIGKILL) and restarts (SIGTERM)
every process in turn. At the end each attempt of each client must have exactly one end in the
request store, counts per minute must equal the rows, and no block, slot, file or process may be
left behind. Exit code 1 when anything is.

    .venv/bin/python ops/bench/bench_endurance.py --requests 100000 --report endurance.json

With `--cancels` nothing is killed: clients leave instead, each at a random moment (before its body
is whole, in the queue, in prefill, in decode, while it reads slowly, after the end, twice), under a
policy with everything switched on. At several moments of quiet nothing may be held for any of them:
no place, slot, reserved block, tenant's use, prompt token or byte at the gateway, no sequence and
no block at the engines, no task and no file.

    .venv/bin/python ops/bench/bench_endurance.py --cancels 100000 --report cancels.json
"""

import argparse
import contextlib
import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ops.endurance.blows import KILLS, ROUND, long_order
from ops.endurance.cancel_run import CancelPlan, CancelVerdict, run_cancels
from ops.endurance.run import Plan, Verdict, run

_REQUESTS_PER_ROUND = 12_000
_GAP_SECONDS = 65.0
"""The supervisor counts a process that lasted for a minute as one that stays up."""


def main() -> None:
    options = _parse()
    # Ended from outside, it must still end what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with _folder(options.folder) as folder:
        if options.cancels is not None:
            plan = CancelPlan(
                num_cancels=options.cancels, seed=options.seed, num_clients=options.clients
            )
            cancelled = run_cancels(plan, folder)
            _report(options.report, cancelled.as_dict())
            _tell_cancels(cancelled)
            wrong = cancelled.wrong
        else:
            verdict = run(_plan(options), folder)
            _report(options.report, verdict.as_dict())
            _tell(verdict)
            wrong = verdict.wrong
    print("\n".join(f"WRONG: {line}" for line in wrong) or "everything is accounted for")
    raise SystemExit(1 if wrong else 0)


def _plan(options: argparse.Namespace) -> Plan:
    num_rounds = options.requests // _REQUESTS_PER_ROUND
    blows = long_order(num_rounds) if num_rounds > 1 else ROUND if num_rounds else KILLS
    return Plan(
        num_requests=options.requests,
        blows=blows,
        gap_seconds=_GAP_SECONDS if num_rounds > 1 else 5.0,
        seed=options.seed,
        num_clients=options.clients,
    )


@contextlib.contextmanager
def _folder(asked: Path | None) -> Iterator[Path]:
    if asked is not None:
        asked.mkdir(parents=True)
        yield asked
    else:
        with tempfile.TemporaryDirectory(prefix="endurance-") as folder:
            yield Path(folder)


def _report(path: Path | None, document: dict[str, Any]) -> None:
    if path is not None:
        path.write_text(json.dumps(document, indent=2) + "\n")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument(
        "--cancels", type=int, metavar="N", help="cancel so many requests, and kill nothing"
    )
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


def _tell_cancels(verdict: CancelVerdict) -> None:
    accounts = verdict.accounts
    print(
        f"{verdict.num_left} clients left, of {accounts.num_attempts} attempts in "
        f"{verdict.seconds:.0f} s ({accounts.num_attempts / verdict.seconds:.0f}/s)"
    )
    for what, counts in (
        ("cancelled in", verdict.left_in),
        ("ends", accounts.by_disposition),
        ("rejected", verdict.rejected),
        ("never arrived", accounts.never_arrived),
        ("most held", verdict.peaks),
    ):
        print(f"{what}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    print(f"leases and counts looked at {verdict.num_looks} times in flight")
    for quiet in verdict.quiets:
        print(
            f"quiet after {quiet.num_left}: within {quiet.settle_seconds:.1f} s, "
            f"{quiet.num_tasks} tasks, {quiet.num_open_files} files open, "
            f"{quiet.resident_bytes / 2**20:.0f} MiB resident, remembered {quiet.remembered}"
        )


if __name__ == "__main__":
    main()
