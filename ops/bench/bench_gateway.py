"""What the gateway adds to a stream, and how many streams it carries, beside plain proxies.

    .venv/bin/python ops/bench/bench_gateway.py --quick
    .venv/bin/python ops/bench/bench_gateway.py --report gateway.json
    .venv/bin/python ops/bench/bench_gateway.py --only capacity --litellm /tmp/litellm-venv

A stub engine answers every chat with 64 chunks, 5 ms apart, one write each. In front of it stand,
in the same run and on the same core: nothing at all, the gateway (started by its own command,
with journal, records, reports and logs), a bare pass-through proxy (plain ASGI under uvicorn,
httptools and uvloop, with httpx towards the stub, forwarding raw bytes), a TCP relay, and LiteLLM
where a virtual environment is named (it is made there if it is not). The load client runs on
another core and is open loop: it sends at planned times, whatever has become of earlier requests.

    latency    at 100 streams/s, milliseconds from a request's last byte to the first text, minus
               those of the stub alone in the same round. Goal: p50 < 2 ms, p99 < 10 ms.
    capacity   streams at once with which the 99th percentile of all chunks is less than 10 ms
               late, and every stream whole. A chunk is late against the pace of its stream, as its
               most punctual chunk sets it. Goal: 60 % of the pass-through's streams, and 20
               times LiteLLM's.

A client that falls behind (late sends, a late event loop, no processor time left) is told as
such: the figures of that run are then the client's and not the server's.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from ops.bench.hot_path.arrivals import Arrivals
from ops.bench.hot_path.capacity import LIMIT_MS, CapacityPlan, CapacityReport, measure_capacity
from ops.bench.hot_path.latency import GOAL_P50_MS, GOAL_P99_MS, LatencyReport, measure_latency
from ops.bench.hot_path.litellm_proxy import NotInstalledError, install_litellm
from ops.bench.hot_path.machine import choose_cores, load_average, on_core, raise_priority
from ops.bench.hot_path.server_process import NotStartedError
from ops.bench.hot_path.stream_run import Quiet, RunTerms, run_streams
from ops.bench.hot_path.subjects import (
    GATEWAY,
    LITELLM,
    PASS_THROUGH,
    RELAY,
    STUB,
    SUBJECTS,
    Pace,
    Running,
    subjects_running,
)

_GOAL_OF_PASS_THROUGH = 0.6
_GOAL_OF_LITELLM = 20.0
_FIRST_LEVELS = {STUB: 100.0, GATEWAY: 12.0, PASS_THROUGH: 30.0, RELAY: 60.0, LITELLM: 1.0}
_WARM_RATE, _WARM_SECONDS = 10.0, 1.0
_FULL = {"rounds": 5, "seconds": 5.0, "searches": 3, "level_seconds": 3.0, "precision": 0.06}
_KEPT = {True: "kept", False: "NOT kept"}
_QUICK = {"rounds": 3, "seconds": 1.5, "searches": 1, "level_seconds": 1.0, "precision": 0.2}


def main() -> None:
    """Measure, print, and write the report."""
    options = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started
    print(raise_priority(options.nice))
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as folder:
        try:
            report = _measure(options, Path(folder))
        except NotStartedError as error:
            raise SystemExit(str(error)) from error
    if options.report is not None:
        options.report.write_text(json.dumps(report, indent=2) + "\n")


def _measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    cores = choose_cores()
    before = load_average()
    _tell(f"{cores.tell()}; load average {before:.2f}")
    litellm = _find_litellm(options)
    pace = Pace(num_chunks=options.chunks, seconds=options.pace_ms / 1e3)
    with subjects_running(options.subjects, pace, cores, folder, litellm) as running:
        for name, why in running.skipped.items():
            _tell(f"{name} is skipped: {why}")
        with on_core(cores.client):
            report = uvloop.run(_run(options, running, pace))
        if running.gateway is not None:
            counts = running.gateway.counts()
            report["records_delivered"] = counts["num_records"]
            _tell(f"records delivered to the control plane: {counts['num_records']}")
    after = load_average()
    _tell(f"load average {before:.2f} before, {after:.2f} after")
    return report | {
        "command": sys.argv[1:],
        "cores": cores.tell(),
        "load_average": [before, after],
        "skipped": running.skipped,
    }


async def _run(options: argparse.Namespace, running: Running, pace: Pace) -> dict[str, Any]:
    terms = RunTerms(
        rate=options.rate,
        seconds=options.seconds,
        pace=pace,
        arrivals=options.arrivals,
        num_prompt_chars=options.prompt_chars,
    )
    for subject in running.subjects.values():  # not counted
        await run_streams(subject, replace(terms, rate=_WARM_RATE, seconds=_WARM_SECONDS))
    quiet = Quiet(max_others=options.max_others)
    report: dict[str, Any] = {}
    if options.only in (None, "latency"):
        # LiteLLM carries a tenth of this rate: what it adds here would be its queue.
        subjects = {name: each for name, each in running.subjects.items() if name != LITELLM}
        latency = await measure_latency(subjects, terms, options.rounds, quiet, _tell)
        _tell_latency(latency, options.rate)
        report["latency"] = latency.as_dict()
    if options.only in (None, "capacity"):
        capacity = await _search(options, running, terms, quiet)
        _tell_capacity(capacity)
        report["capacity"] = capacity.as_dict()
    if options.max_others is not None:
        report["num_runs_repeated"] = quiet.num_repeated
        _tell(f"{quiet.num_repeated} runs were disturbed by others, and made again")
    return report


async def _search(
    options: argparse.Namespace, running: Running, terms: RunTerms, quiet: Quiet
) -> CapacityReport:
    # The stub carries the most, and takes the longest to find.
    wanted = set(options.subjects) - ({STUB} if options.quick else set())
    subjects = {name: each for name, each in running.subjects.items() if name in wanted}
    plan = CapacityPlan(
        terms=replace(terms, seconds=options.level_seconds),
        first_levels=_FIRST_LEVELS,
        num_rounds=options.searches,
        limit_ms=options.limit_ms,
        precision=options.precision,
    )
    return await measure_capacity(subjects, plan, quiet, _tell)


def _tell_latency(report: LatencyReport, rate: float) -> None:
    _tell(f"added to the first byte at {rate:g} streams/s, open loop:")
    for added in report.added.values():
        _tell(added.tell())
    if GATEWAY in report.added:
        keeps = report.added[GATEWAY].keeps_goal
        kept = "no verdict, nothing was measured" if keeps is None else _KEPT[keeps]
        _tell(f"goal p50 < {GOAL_P50_MS:g} ms and p99 < {GOAL_P99_MS:g} ms: {kept}")


def _tell_capacity(report: CapacityReport) -> None:
    _tell("paced streams at once with chunks on time:")
    for name, at_once in report.at_once.items():
        behind = report.client_behind.get(name)
        note = f"   at least: the client was behind, which limits it ({behind})" if behind else ""
        _tell(f"{name:12} {at_once.tell(digits=1)}{note}")
    for other, goal in ((PASS_THROUGH, _GOAL_OF_PASS_THROUGH), (LITELLM, _GOAL_OF_LITELLM)):
        share = report.share(GATEWAY, other)
        if share is not None:
            kept = _KEPT[share >= goal]
            _tell(f"the gateway keeps {share:.2f} times as many as {other}; goal {goal:g}: {kept}")
        elif other in report.at_once and GATEWAY in report.at_once:
            _tell(f"the gateway and {other}: no verdict, not all of the load was the subjects'")


def _find_litellm(options: argparse.Namespace) -> Path | None:
    if options.litellm is None or LITELLM not in options.subjects:
        return None
    try:
        version = install_litellm(options.litellm)
    except NotInstalledError as error:
        _tell(f"LiteLLM cannot be installed: {error}")
        return None
    _tell(f"LiteLLM {version} in {options.litellm}")
    return Path(options.litellm)


_tell: Callable[[str], None] = lambda line: print(line, flush=True)  # noqa: E731


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="everything shorter: under a minute")
    parser.add_argument("--only", choices=["latency", "capacity"])
    parser.add_argument("--subjects", nargs="+", choices=SUBJECTS, help="[all; quick: no relay]")
    parser.add_argument("--rate", type=float, default=100.0, help="of latency, streams a second")
    parser.add_argument("--rounds", type=int, help="of latency [5]")
    parser.add_argument("--seconds", type=float, help="of each subject in each round [5]")
    parser.add_argument("--searches", type=int, help="of capacity [3]")
    parser.add_argument("--level-seconds", type=float, help="of each level [3]")
    parser.add_argument("--precision", type=float, help="of a level, as a share of it [0.06]")
    parser.add_argument("--limit-ms", type=float, default=LIMIT_MS, help="of capacity")
    parser.add_argument("--chunks", type=int, default=64, help="of an answer")
    parser.add_argument("--pace-ms", type=float, default=5.0, help="from chunk to chunk")
    parser.add_argument("--prompt-chars", type=int, default=200)
    parser.add_argument("--arrivals", type=Arrivals, choices=list(Arrivals), default=Arrivals.EVEN)
    parser.add_argument("--litellm", type=Path, metavar="VENV", help="made if it is not there")
    parser.add_argument(
        "--max-others",
        type=float,
        metavar="CORES",
        help="make a run again in which the rest of the machine used more",
    )
    parser.add_argument(
        "--nice", type=int, default=0, help="below 0: less disturbed; root alone may"
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="where to write it all")
    options = parser.parse_args()
    for name, value in (_QUICK if options.quick else _FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.subjects is None:
        options.subjects = [n for n in SUBJECTS if not (options.quick and n == RELAY)]
    return options


if __name__ == "__main__":
    main()
