"""Does the gateway's memory stay flat under load, with slow readers among its clients?

    .venv/bin/python ops/bench/bench_soak.py --capacity 40 --report soak.json
    .venv/bin/python ops/bench/bench_soak.py --capacity 40 --minutes 5 --slow-every 0

The real gateway (started by its own command, records and all) in front of the stub engine carries
80 % of the streams at once that `bench_gateway.py --only capacity` has found: name that number.
Every tenth stream is read slowly, and long enough for that to be felt: a small receive buffer,
a pause after each read, and more chunks than the kernel and the policy's buffer hold, which is made
small for it: the engine must be seen to be paused for them. The resident memory of the gateway is
sampled every 10 s. Told are its slope and (most - least) / median after the warm-up; goal: within
5 %. Exit code 1 when it is not flat, when a stream did not come whole, when nobody was paused for a
slow reader, or when the gateway still holds a request at the end.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import uvloop

from dataplane.slow_client_terms import SlowClientTerms
from ops.bench.hot_path.gateway_under_test import PLAIN_POLICY, gateway_running
from ops.bench.hot_path.machine import choose_cores, load_average, on_core, raise_priority
from ops.bench.hot_path.server_process import NotStartedError, announced
from ops.bench.hot_path.soak import GOAL_SHARE, Memory, Sample, SoakPlan, add_up, soak
from ops.bench.hot_path.subjects import Pace

_GATEWAY = "gateway"
_SHARE = 0.8
_BUFFER_BYTES = 256
"""Of a slow reader's text that the gateway keeps: of chunks of six bytes, that take thirty times as
much on the wire and in the kernel."""
_POLICY = replace(
    PLAIN_POLICY,
    slow_clients=SlowClientTerms(max_waiting_bytes=_BUFFER_BYTES, pause_seconds=120.0),
)


def main() -> None:
    """Run, print, and write the report."""
    options = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what it started
    print(raise_priority(options.nice))
    before = load_average()
    with tempfile.TemporaryDirectory(prefix="bench-soak-") as folder:
        try:
            samples, left = _run(options, Path(folder))
        except NotStartedError as error:
            raise SystemExit(str(error)) from error
    loads = [before, load_average()]
    memory = add_up(samples, _GATEWAY, _warm_up_seconds(options))
    faults = _faults(samples, memory, left, has_slow=options.slow_every > 0)
    _tell_result(memory, samples, left, loads)
    if options.report is not None:
        report: dict[str, Any] = {
            "command": sys.argv[1:],
            "load_average": loads,
            "memory": None if memory is None else asdict(memory) | {"swing": memory.swing},
            "faults": faults,
            "num_records": left.num_records,
            "slow_clients": dict(left.slow_clients),
            "samples": [asdict(sample) for sample in samples],
        }
        options.report.write_text(json.dumps(report, indent=2) + "\n")
    raise SystemExit("; ".join(faults) or 0)


@dataclass(frozen=True, slots=True)
class _Left:
    """What the gateway tells at the end."""

    num_held: int
    num_records: int
    slow_clients: Mapping[str, int]
    """Requests by what became of them because their client was slow."""


def _run(options: argparse.Namespace, folder: Path) -> tuple[list[Sample], _Left]:
    cores = choose_cores()
    pace = Pace(num_chunks=options.chunks, seconds=options.pace_ms / 1e3)
    plan = SoakPlan(
        seconds=60 * options.minutes,
        at_once=_SHARE * options.capacity,
        pace=pace,
        slow_every=options.slow_every,
        slow_chunks=options.slow_chunks,
        num_prompt_chars=options.prompt_chars,
        sample_seconds=options.sample_seconds,
    )
    print(
        f"{cores.tell()}; {plan.at_once:g} streams at once, {plan.rate:.1f}/s for "
        f"{options.minutes:g} min; load average {load_average():.2f}",
        flush=True,
    )
    longest = Pace(num_chunks=max(pace.num_chunks, plan.slow_chunks), seconds=pace.seconds)
    with (
        announced("stub", "stub_engine", longest.options(), cores.server, folder) as (stub, at),
        gateway_running(at["replica"], cores, folder, _POLICY) as gateway,
        on_core(cores.client),
    ):
        pids = {_GATEWAY: gateway.process.pid, "stub": stub.pid}
        samples = uvloop.run(soak(gateway.address, pids, plan, _tell_sample))
        num_held = len(gateway.live()["requests"])
        return samples, _Left(num_held, gateway.counts()["num_records"], gateway.slow_clients())


def _tell_sample(sample: Sample) -> None:
    resident = ", ".join(f"{name} {mib:.1f}" for name, mib in sample.resident_mib.items())
    late = "none" if sample.chunk_delay_p99 is None else f"{sample.chunk_delay_p99:.1f}"
    sent = "none" if sample.send_delay_p99 is None else f"{sample.send_delay_p99:.1f}"
    others = f", others {dict(sample.ends)}" if sample.ends else ""
    print(
        f"  {sample.at_seconds:6.0f} s  {resident} MiB, {sample.num_open_files} files, "
        f"{sample.num_in_flight} in flight, {sample.num_whole} whole{others}, chunks late p99 "
        f"{late} ms, sent late p99 {sent} ms",
        flush=True,
    )


def _tell_result(
    memory: Memory | None, samples: list[Sample], left: _Left, loads: list[float]
) -> None:
    num_whole = sum(sample.num_whole for sample in samples)
    print(f"{num_whole} streams whole, {left.num_records} records delivered")
    print(f"slow readers: {dict(left.slow_clients) or 'nobody was paused or ended'}")
    if memory is not None:
        print(
            f"gateway after the warm-up: median {memory.median:.1f} MiB, {memory.least:.1f} to "
            f"{memory.most:.1f}: swing {100 * memory.swing:.1f} % (goal {100 * GOAL_SHARE:g} %), "
            f"slope {memory.slope_per_minute:+.3f} MiB/min"
        )
    print(f"load average {loads[0]:.2f} to {loads[1]:.2f}")


def _faults(
    samples: list[Sample], memory: Memory | None, left: _Left, *, has_slow: bool
) -> list[str]:
    faults = []
    if memory is None:
        faults.append("too short: fewer than two samples after the warm-up")
    elif not memory.is_flat:
        faults.append(f"memory is not flat within {100 * GOAL_SHARE:g} %")
    ends: Counter[str] = sum((Counter(sample.ends) for sample in samples), Counter())
    if ends:
        faults.append(f"streams that did not come whole: {dict(ends)}")
    if left.num_held:
        faults.append(f"{left.num_held} requests are held by nobody's wish")
    if has_slow and not sum(left.slow_clients.values()):
        faults.append("no engine was paused for a slow reader: their answers are too short")
    return faults


def _warm_up_seconds(options: argparse.Namespace) -> float:
    told: float | None = options.warm_up
    return min(120.0, 60 * options.minutes / 5) if told is None else told


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--capacity", type=float, required=True, help="streams at once; 80 %% of it is carried"
    )
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument(
        "--warm-up", type=float, metavar="SECONDS", help="not judged [a fifth, at most 120]"
    )
    parser.add_argument("--slow-every", type=int, default=10, help="stream; 0: none is slow")
    parser.add_argument("--slow-chunks", type=int, default=1024, help="of a slow reader's answer")
    parser.add_argument("--sample-seconds", type=float, default=10.0)
    parser.add_argument("--chunks", type=int, default=64, help="of an answer")
    parser.add_argument("--pace-ms", type=float, default=5.0, help="from chunk to chunk")
    parser.add_argument("--prompt-chars", type=int, default=200)
    parser.add_argument(
        "--nice", type=int, default=0, help="below 0: less disturbed; root alone may"
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="where to write it all")
    return parser.parse_args()


if __name__ == "__main__":
    main()
