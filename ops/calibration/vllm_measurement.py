"""One measurement of vLLM: training and test traffic, sent to a real server; what it tells.

A folder holds of each run of traffic

    NAME.run.json       its arrivals, and when its clients had their chunks
    NAME.traces.json    vLLM's spans, as OTLP JSON
    NAME.metrics/       scrapes at regular times: 0000.txt is before the traffic, the last behind it
    NAME.records        where a gateway stood before it: its full records, as JSON lines

and facts.json. The server is idle between runs.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import uvloop

from controlplane.cli.span_sources import read_span_files
from dataplane import foreign_names
from dataplane.policy import ReplicaEndpoint
from dataplane.record import RequestRecord, decode_record, encode_record
from dataplane.simulation.fitting.replay import ReplicaBounds
from dataplane.simulation.fitting.vllm_requests import EngineSpan
from ops.calibration.measurement import LOADS, TESTING, TRAINING, TRAINING_SHARES
from ops.calibration.saturation import pace_of
from ops.calibration.service import MODEL, read_spool, serving_gateway
from ops.calibration.span_file import keeping_spans
from ops.calibration.traffic import Answer, Arrival, Mix, at_once, poisson, send
from ops.calibration.vllm_server import VllmPlan, VllmServer, free_port, serving_vllm

_CROWD = 64
_WARM_UP = 12
"""Requests that nobody looks at: the first ones of a server wait for what it compiles."""
_LATE_SECONDS = 20.0
"""For spans and records that are written behind the answers."""
_REPLICA = "vllm-calibrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficPlan:
    """What to send."""

    num_rounds: int
    test_seconds: float
    training_seconds: float
    scrape_every: float
    """Seconds."""
    is_through_gateway: bool
    """Through a gateway of ours, which keeps records of all; else right to vLLM."""
    seed: int


class VllmRun(msgspec.Struct, frozen=True):
    """What was sent and came back."""

    arrivals: tuple[Arrival, ...]
    answers: tuple[Answer, ...]


class VllmFacts(msgspec.Struct, frozen=True):
    """What a measurement was under."""

    bounds: ReplicaBounds
    saturation_per_s: float


def measure_vllm(
    folder: Path, server: VllmPlan, traffic: TrafficPlan, tell: Callable[[str], None]
) -> None:
    """Fill `folder`, and tell of each run as it ends.

    Raises NotStartedError, ConnectionError, httpx.HTTPError, and LookupError for what is lacking.
    """
    port = free_port()
    with (
        keeping_spans(folder / "start.traces.json", port) as traces_url,
        contextlib.ExitStack() as serving,
    ):
        began = time.monotonic()
        found = serving.enter_context(serving_vllm(server, traces_url, folder))
        tell(f"vLLM serves after {time.monotonic() - began:.0f} s")
        kept = serving.pop_all()
    with kept:
        url = found.url
        if traffic.is_through_gateway:
            url = kept.enter_context(serving_gateway(folder, _endpoint(found), server.model))
        runs = _Runs(found, url, folder, port, traffic, tell)
        saturation = _send_all(runs, found.bounds.scheduler.max_num_seqs, traffic)
    facts = VllmFacts(found.bounds, saturation)
    (folder / "facts.json").write_bytes(msgspec.json.encode(facts))


def _endpoint(server: VllmServer) -> ReplicaEndpoint:
    return ReplicaEndpoint(
        replica_id=_REPLICA, engine="openai", address=server.url, settings={"ignore_eos": True}
    )


def _send_all(runs: "_Runs", num_slots: int, traffic: TrafficPlan) -> float:
    """The saturation of test traffic, in requests a second."""
    runs.send("warm-up", at_once(TRAINING, _WARM_UP, runs.next_seed()))
    capacity = runs.crowd("training-crowd", TRAINING, num_slots)
    saturation = runs.crowd("saturation", TESTING, num_slots)
    shares = itertools.cycle(TRAINING_SHARES)
    for number in range(traffic.num_rounds):
        for load, share in LOADS.items():
            rate = next(shares) * capacity
            runs.poisson(f"training-{number}-{load}", TRAINING, rate, traffic.training_seconds)
            runs.poisson(f"{load}-{number}", TESTING, share * saturation, traffic.test_seconds)
    return saturation


def read_facts(folder: Path) -> VllmFacts:
    """Raises OSError and msgspec.DecodeError."""
    return msgspec.json.decode((folder / "facts.json").read_bytes(), type=VllmFacts)


def read_run(folder: Path, name: str) -> VllmRun:
    """Raises OSError and msgspec.DecodeError."""
    return msgspec.json.decode((folder / f"{name}.run.json").read_bytes(), type=VllmRun)


def run_names(folder: Path, kind: str) -> list[str]:
    """The runs of that kind, in the order in which they were sent."""
    files = sorted(folder.glob(f"{kind}-*.run.json"), key=lambda path: path.stat().st_mtime_ns)
    return [path.name.removesuffix(".run.json") for path in files]


def scrapes_of(folder: Path, name: str) -> list[Path]:
    """In order of time."""
    return sorted((folder / f"{name}.metrics").glob("*.txt"))


def spans_path(folder: Path, name: str) -> Path:
    """Where vLLM's spans of a run are."""
    return folder / f"{name}.traces.json"


def read_spans(folder: Path, name: str) -> list[EngineSpan]:
    """Those of requests."""
    spans = read_span_files([str(spans_path(folder, name))])
    return [span for span in spans if span.name == foreign_names.VLLM_REQUEST_SPAN]


def read_records(folder: Path, name: str) -> list[RequestRecord]:
    """Empty where no gateway stood before it."""
    path = folder / f"{name}.records"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [decode_record(line) for line in lines]


class _Runs:
    """Sends one run of traffic after the other, and keeps what is told of each."""

    def __init__(
        self,
        server: VllmServer,
        url: str,
        folder: Path,
        port: int,
        traffic: TrafficPlan,
        tell: Callable[[str], None],
    ) -> None:
        self._server = server
        self._url = url
        self._folder = folder
        self._port = port
        self._traffic = traffic
        self._tell = tell
        self._num_seeds = 0
        self._num_records = 0

    def next_seed(self) -> int:
        """Another one."""
        self._num_seeds += 1
        return self._traffic.seed * 1000 + self._num_seeds

    def crowd(self, name: str, mix: Mix, num_slots: int) -> float:
        """All at once; what the server could do meanwhile, in requests a second."""
        answers = self.send(name, at_once(mix, _CROWD, self.next_seed()))
        begun = [answer.chunks_at[0] for answer in answers]
        return pace_of(begun, [answer.chunks_at for answer in answers], num_slots)

    def poisson(self, name: str, mix: Mix, rate: float, seconds: float) -> None:
        """Open loop at `rate` a second."""
        self.send(name, poisson(mix, rate, seconds, self.next_seed()))

    def send(self, name: str, arrivals: list[Arrival]) -> list[Answer]:
        """Send them and keep what comes of them."""
        if not arrivals:
            raise LookupError(f"{name}: no request came in so short a time; give it longer")
        began = time.monotonic()
        with (
            keeping_spans(spans_path(self._folder, name), self._port),
            keeping_scrapes(
                self._folder / f"{name}.metrics", self._server.scrape, self._traffic.scrape_every
            ),
        ):
            answers = uvloop.run(send(self._url, MODEL, arrivals, self.next_seed()))
            self._wait_for(lambda: len(read_spans(self._folder, name)), len(arrivals), "spans")
        if self._traffic.is_through_gateway:
            self._keep_records(name, len(arrivals))
        run = VllmRun(tuple(arrivals), tuple(answers))
        (self._folder / f"{name}.run.json").write_bytes(msgspec.json.encode(run))
        self._tell(f"{name}: {len(arrivals)} requests in {time.monotonic() - began:.0f} s")
        return answers

    def _keep_records(self, name: str, count: int) -> None:
        known = self._num_records
        self._wait_for(lambda: len(read_spool(self._folder)) - known, count, "records")
        records = read_spool(self._folder)[known:]
        self._num_records += len(records)
        lines = b"".join(encode_record(record) + b"\n" for record in records)
        (self._folder / f"{name}.records").write_bytes(lines)

    def _wait_for(self, find: Callable[[], int], count: int, what: str) -> None:
        deadline = time.monotonic() + _LATE_SECONDS
        while (found := find()) < count:
            if time.monotonic() > deadline:
                raise LookupError(f"{found} {what} came of {count} requests")
            time.sleep(1.0)


@contextlib.contextmanager
def keeping_scrapes(
    folder: Path, scrape: Callable[[], str], every_seconds: float
) -> Iterator[None]:
    """Keep what `scrape` says before, at regular times, and behind. What it raises meanwhile is
    raised where the block ends: the rest of the run would go without, and nobody would be told."""
    folder.mkdir()
    numbers = itertools.count()
    ended = threading.Event()

    def keep() -> None:
        text = scrape()
        (folder / f"{next(numbers):04}.txt").write_text(text, encoding="utf-8")

    def keep_on() -> None:
        while not ended.wait(every_seconds):
            keep()

    keep()
    with ThreadPoolExecutor(max_workers=1) as thread:
        kept = thread.submit(keep_on)
        try:
            yield
        finally:
            ended.set()
        kept.result()
    keep()


def latencies_of(run: VllmRun) -> tuple[Sequence[float], Sequence[float], float]:
    """TTFTs, TPOTs, and requests a second until the last answer ended: as the clients saw it,
    from the send."""
    ttfts = [answer.chunks_at[0] - answer.sent_at for answer in run.answers]
    tpots = [
        (answer.chunks_at[-1] - answer.chunks_at[0]) / (arrival.num_output_tokens - 1)
        for arrival, answer in zip(run.arrivals, run.answers, strict=True)
        if arrival.num_output_tokens > 1
    ]
    first = min(answer.sent_at for answer in run.answers)
    last = max(answer.chunks_at[-1] for answer in run.answers)
    return ttfts, tpots, len(run.answers) / (last - first)
