"""What it costs the control plane to look at a whole fleet all the time.

    .venv/bin/python ops/bench/bench_always_on.py
    .venv/bin/python ops/bench/bench_always_on.py --deployments 20 --replicas 3

Another process shows a page as vLLM writes it (400 lines) for every replica; the watcher does its
passes as in the control plane, but with no pause between them, its clock moved by five seconds
each. Told are seconds of its own CPU and of the wall by pass, what was scraped and judged, how old
the answers are, and how much memory the histories take.
"""

import argparse
import math
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path

from controlplane.diagnosis.always_on.diagnoses import Diagnoses
from controlplane.diagnosis.always_on.rule_guard import RuleGuard
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.sight import Sight
from controlplane.diagnosis.always_on.watcher import Watcher
from controlplane.diagnosis.rule_book import load_rules
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.process_history import ProcessHistory
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import create_or_open_database

_HISTOGRAMS = (
    "time_to_first_token_seconds", "inter_token_latency_seconds", "e2e_request_latency_seconds",
    "request_queue_time_seconds", "request_prefill_time_seconds", "request_decode_time_seconds",
    "request_prompt_tokens", "request_generation_tokens", "iteration_tokens_total",
    "request_time_per_output_token_seconds", "request_inference_time_seconds",
    "request_params_max_tokens", "request_params_n",
)  # fmt: skip


def page(number: int) -> str:
    """The page of a busy engine that is well, after `number` scrapes."""
    labels = '{engine="0",model_name="m"}'
    dice = random.Random(number)
    lines = [
        f"vllm:num_requests_running{labels} {20 + dice.randrange(6)}.0",
        f"vllm:num_requests_waiting{labels} {dice.randrange(2)}.0",
        f"vllm:kv_cache_usage_perc{labels} {0.4 + 0.02 * dice.random():.4f}",
        f"vllm:num_preemptions_total{labels} 0.0",
        f"vllm:prompt_tokens_total{labels} {number * 40_000}.0",
        f"vllm:generation_tokens_total{labels} {number * 5_000}.0",
        f"vllm:prefix_cache_queries_total{labels} {number * 40_000}.0",
        f"vllm:prefix_cache_hits_total{labels} {number * 14_000}.0",
    ]
    for name in _HISTOGRAMS:
        lines.append(f"# TYPE vllm:{name} histogram")
        for bound in range(22):
            seen = number * 20 * min(1.0, (bound + 1) / 6)
            lines.append(
                f'vllm:{name}_bucket{{engine="0",le="{bound * 0.5}",model_name="m"}} {seen:.0f}.0'
            )
        lines.append(f'vllm:{name}_bucket{{engine="0",le="+Inf",model_name="m"}} {number * 20}.0')
        lines.append(f"vllm:{name}_count{labels} {number * 20}.0")
        lines.append(f"vllm:{name}_sum{labels} {number * 33.5}")
    lines += [f'python_gc_objects_total{{generation="{each}"}} {number}.0' for each in range(40)]
    return "\n".join([*lines, ""])


def serve(told: Connection) -> None:
    """A page for any path; each scrape of one is the next of its own."""
    numbers: dict[str, int] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            numbers[self.path] = numbers.get(self.path, 0) + 1
            body = page(numbers[self.path]).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

    server = Server(("127.0.0.1", 0), Handler)
    told.send(server.server_address[1])
    server.serve_forever()


def fleet(num_deployments: int, num_replicas: int, port: int) -> list[ObservedReplica]:
    """Replicas that show their pages below one port."""
    return [
        ObservedReplica(
            replica_id=f"d{d}-{r}",
            deployment=f"d{d}",
            engine="vllm",
            model_revision="m@1",
            state="ready",
            reason="",
            stage="serving",
            pid=None,
            address=None,
            metrics_address=f"127.0.0.1:{port}/d{d}-{r}",
            start_stages={},
            probed_at_unix_ns=None,
            observed_at_unix_ns=0,
        )
        for d in range(num_deployments)
        for r in range(num_replicas)
    ]


def measure(num_deployments: int, num_replicas: int, num_passes: int, port: int) -> None:
    """Print what passes over such a fleet take."""
    clock = [time.time_ns()]
    settings = AlwaysOnSettings()
    observed = ObservedState(lambda: clock[0])
    observed.set_replicas(fleet(num_deployments, num_replicas, port))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config_db, request_db = (
            create_or_open_database(sqlite_url(folder / f"{kind}.db"), kind)
            for kind in (DatabaseKind.CONFIG, DatabaseKind.REQUESTS)
        )
        history = ProcessHistory(folder)
        sight = Sight(observed, config_db, request_db, history, folder, settings.keep_seconds)
        diagnoses = Diagnoses()
        guard = RuleGuard(load_rules())
        watcher = Watcher(config_db, observed, sight, guard, diagnoses, settings, lambda: clock[0])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        walls, cpus = [], []
        for _ in range(num_passes):
            began, began_cpu = time.perf_counter(), time.process_time()
            watcher.do_pass()
            walls.append(time.perf_counter() - began)
            cpus.append(time.process_time() - began_cpu)
            clock[0] += round(settings.pass_seconds * 10**9)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        ages = [(clock[0] - last.at_unix_ns) / 1e9 for last in diagnoses.all()]
        found = Counter(last.mechanism for last in diagnoses.all())
        watcher.close()
        config_db.close()
        request_db.close()
    settled = cpus[len(cpus) // 2 :]
    print(
        f"{num_deployments} deployments of {num_replicas}, {num_passes} passes 5 s apart: CPU of a "
        f"pass median {statistics.median(cpus):.2f} s, worst {max(cpus):.2f} s, later "
        f"{statistics.mean(settled):.2f} s on the average; wall median "
        f"{statistics.median(walls):.2f} s; {watcher.num_scrapes} scrapes, "
        f"{watcher.num_failed_scrapes} failed; {watcher.num_looks} looks; "
        f"{len(ages)} deployments answered for, the oldest answer "
        f"{max(ages, default=math.nan):.0f} s old; memory grew by {grown / 1024:.0f} MiB; "
        f"found: {', '.join(f'{name} {number} times' for name, number in found.most_common())}"
    )


def main() -> None:
    """Measure one fleet."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--deployments", type=int, default=500)
    parser.add_argument("--replicas", type=int, default=10, help="of each deployment")
    parser.add_argument("--passes", type=int, default=130)
    arguments = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        measure(arguments.deployments, arguments.replicas, arguments.passes, ours.recv())
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
