"""What the gateway adds to the streams of an attached engine, beside the engine asked directly.

    .venv/bin/python ops/bench/bench_attached.py --quick
    .venv/bin/python ops/bench/bench_attached.py --report attached.json

A stub answers every chat as a vLLM server would, with 64 chunks, 20 ms apart; streams come at
such a rate that 50 are under way at once. It is asked directly and through a gateway that attaches
it with the adapter for vLLM, in turn, both on the same core, by a client on another.

    added      milliseconds from a request's last byte to the first text, minus those of the stub
               alone in the same round. Goal: p50 < 2 ms, p99 < 10 ms.
"""

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from ops.bench.hot_path.arrivals import Arrivals
from ops.bench.hot_path.gateway_under_test import gateway_running
from ops.bench.hot_path.latency import GOAL_P50_MS, GOAL_P99_MS, measure_latency
from ops.bench.hot_path.machine import choose_cores, load_average, on_core, raise_priority
from ops.bench.hot_path.server_process import NotStartedError, announced
from ops.bench.hot_path.stream_run import Quiet, RunTerms, run_streams
from ops.bench.hot_path.subjects import GATEWAY, STUB, Pace, Subject

_ENGINE = "vllm"
_WARM_RATE, _WARM_SECONDS = 10.0, 1.0
_FULL = {"rounds": 5, "seconds": 8.0}
_QUICK = {"rounds": 2, "seconds": 4.0}


def main() -> None:
    """Measure, print, and write the report."""
    options = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started
    _tell(raise_priority(options.nice))
    with tempfile.TemporaryDirectory(prefix="bench-attached-") as folder:
        try:
            report = _measure(options, Path(folder))
        except NotStartedError as error:
            raise SystemExit(str(error)) from error
    if options.report is not None:
        options.report.write_text(json.dumps(report, indent=2) + "\n")


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    cores, before = choose_cores(), load_average()
    _tell(f"{cores.tell()}; load average {before:.2f}")
    pace = Pace(num_chunks=options.chunks, seconds=options.pace_ms / 1e3)
    with announced("stub", "stub_engine", pace.options(), cores.server, folder) as (stub, at):
        url = f"http://{at['http']}"
        with gateway_running(url, cores, folder, engine=_ENGINE) as gateway:
            subjects = {
                STUB: Subject(name=STUB, address=at["http"], pids={STUB: stub.pid}),
                GATEWAY: Subject(
                    name=GATEWAY,
                    address=gateway.address,
                    pids={STUB: stub.pid, GATEWAY: gateway.process.pid},
                ),
            }
            with on_core(cores.client):
                report = uvloop.run(_run(options, subjects, pace))
    return report | {"command": sys.argv[1:], "load_average": [before, load_average()]}


async def _run(
    options: argparse.Namespace, subjects: dict[str, Subject], pace: Pace
) -> dict[str, Any]:
    terms = RunTerms(
        rate=options.streams / pace.stream_seconds,
        seconds=options.seconds,
        pace=pace,
        arrivals=Arrivals.POISSON,
        num_prompt_chars=options.prompt_chars,
    )
    for subject in subjects.values():  # not counted
        await run_streams(subject, replace(terms, rate=_WARM_RATE, seconds=_WARM_SECONDS))
    latency = await measure_latency(subjects, terms, options.rounds, Quiet(max_others=None), _tell)
    added = latency.added[GATEWAY]
    _tell(f"an attached {_ENGINE} with {options.streams} streams at once:")
    _tell(added.tell())
    kept = {None: "no verdict", True: "kept", False: "NOT kept"}[added.keeps_goal]
    _tell(f"goal p50 < {GOAL_P50_MS:g} ms and p99 < {GOAL_P99_MS:g} ms: {kept}")
    return latency.as_dict()


def _tell(line: str) -> None:
    print(line, flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two short rounds")
    parser.add_argument("--streams", type=int, default=50, help="at once [50]")
    parser.add_argument("--chunks", type=int, default=64, help="of an answer [64]")
    parser.add_argument("--pace-ms", type=float, default=20.0, help="between chunks [20]")
    parser.add_argument("--prompt-chars", type=int, default=200, help="of a prompt [200]")
    parser.add_argument("--rounds", type=int, help="[5]")
    parser.add_argument("--seconds", type=float, help="of each subject in each round [8]")
    parser.add_argument("--nice", type=int, default=0, help="priority asked for [0]")
    parser.add_argument("--report", type=Path, help="where to write all figures, as JSON")
    options = parser.parse_args()
    for name, value in (_QUICK if options.quick else _FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


if __name__ == "__main__":
    main()
