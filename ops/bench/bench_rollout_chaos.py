"""Does a rollout end with one whole revision, whatever happens at any of its steps?

Starts a whole installation (supervisor, control plane, gateway, replicas of the simulator), has
callers call all the time, and rolls out one change after the other: of policy, engine config and
model. At one moment of each something is done to the installation, or the candidate is bad. Then
the deployment must have all replicas of one of the two revisions and no other process, the gateway
must enforce that one, there must never have been fewer replicas than before (but for killed ones,
until they are replaced), every call must be on record as its caller knows it, without a gap in the
gateway's numbers, and no call may have failed but what was in flight on a killed replica, and what
a candidate itself refuses. Exit code 1 when anything is wrong.

    .venv/bin/python ops/bench/bench_rollout_chaos.py --database sqlite --database postgresql \
        --markdown ops/bench/rollout_chaos.md
    .venv/bin/python ops/bench/bench_rollout_chaos.py --seed 7 --rounds 20
    .venv/bin/python ops/bench/bench_rollout_chaos.py --only "engine: good"
"""

import argparse
import itertools
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from ops.chaos.cases import SHORT, Case, draw, matrix
from ops.chaos.report import cells, lines, render
from ops.chaos.run import Verdict, run

_A_TIME = 12
"""Cases of one installation: if one of them fails, the others of it are left out."""


def main() -> None:
    """Try every case, and tell."""
    options = _parse()
    # Ended from outside, it must still end what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cases = _cases(options)
    began, verdicts = time.monotonic(), []
    for database in options.database or ["sqlite"]:
        for start in range(0, len(cases), _A_TIME):
            with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
                verdict = run(cases[start : start + _A_TIME], Path(folder), database, options.seed)
            verdicts.append(verdict)
            print("\n".join(lines(verdict)), flush=True)
    seconds = time.monotonic() - began
    if options.markdown is not None:
        command = shlex.join([".venv/bin/python", *sys.argv])
        options.markdown.write_text(render(verdicts, seconds, os.cpu_count() or 1, command))
    wrong = list(_wrong(verdicts))
    print("\n".join(f"WRONG: {each}" for each in wrong) or f"all of {cells(verdicts)} are whole")
    raise SystemExit(1 if wrong else 0)


def _cases(options: argparse.Namespace) -> list[Case]:
    if options.rounds:
        return list(itertools.islice(draw(options.seed), options.rounds))
    chosen = SHORT if options.short else matrix()
    found = [case for case in chosen if options.only in case.told]
    if options.part:
        number, of = (int(word) for word in options.part.split("/"))
        found = found[number - 1 :: of]
    if not found:
        raise SystemExit(f"no case has {options.only!r} in it; one is {chosen[0].told!r}")
    return found


def _wrong(verdicts: list[Verdict]) -> Iterator[str]:
    for verdict in verdicts:
        for line in verdict.all_wrong:
            yield f"{verdict.database}: {line}"


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql"])
    parser.add_argument("--only", default="", metavar="WORDS", help="cases with these words")
    parser.add_argument("--part", metavar="N/M", help="every M-th case, from the N-th on")
    parser.add_argument("--short", action="store_true", help="the handful that the tests try")
    parser.add_argument("--seed", type=int, default=1, help="of the random cases and the calls")
    parser.add_argument("--rounds", type=int, default=0, metavar="N", help="so many random cases")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where to write the table")
    return parser.parse_args()


if __name__ == "__main__":
    main()
