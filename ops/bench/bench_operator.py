"""How a fleet of 500 deployments and 5,000 replicas is kept, by one control plane on one core.

    .venv/bin/python ops/bench/bench_operator.py
    .venv/bin/python ops/bench/bench_operator.py --postgresql --json report.json
    .venv/bin/python ops/bench/bench_operator.py --deployments 50 --replicas 4 --gateways 2

A real control plane runs on one core, as `pilothouse controlplane` starts it; ten real gateway
processes share another one with the bench. Replicas are those of a launcher that starts nothing
(`ops/bench/fleet/idle_launcher.py`): they are ready at once and never answer how they stand, since
asking 5,000 of them each second would take ten gateways more than the core that they share. What
else gateways do for replicas they do: connect, and report each of them every second. Each
deployment has a model and an admission policy of its own.

- "a change": one policy's threshold is applied over HTTP, again and again, to one deployment after
  another. From the time that its revision carries, which is before the commit, until the gateway's
  log says that it enforces the first snapshot that has it; of all gateways the last. "asked": from
  before the request was sent. The same while replicas fail, 1 % of them in every 10 s.
- "a model": a model's revision, until every gateway enforces the first snapshot without one of the
  replicas that it replaces.
- "passes": of the reconciler alone in a process of its own, over the same database: the first after
  a start, with everything as desired; later ones; all 500 policies changed at once; all 5,000
  replicas replaced at once. Processor seconds are those of all its threads.
- "control plane": its share of the core and its memory while nothing changes and while things do.
- overview and plan: a page of the console and `pilothouse plan`, as its user waits for them.

Goals: a change reaches every gateway in under 1 s at p99; everything is reconciled in under 5 s.
"""

import argparse
import contextlib
import functools
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from dataplane.policy import DeploymentPolicy
from ops.bench.fleet import documents
from ops.bench.fleet.idle_launcher import set_failing
from ops.bench.fleet.installation import Installation, num_ready, wait_until_settled
from ops.bench.fleet.takeover import GatewayLog, Watcher, all_enforced, watching
from ops.bench.hot_path.machine import choose_cores, on_core, processor_seconds, resident_bytes
from ops.bench.hot_path.server_process import ServerProcess
from tests.postgresql import running_cluster

_SETTLE_SECONDS = 240.0
_ENFORCE_SECONDS = 30.0
_GATEWAYS_SECONDS = 120.0
_CALM_SECONDS = 10.0
_SHARE_FAILING, _FAILING_SECONDS = 0.01, 10.0


@dataclass(slots=True, kw_only=True)
class Fleet:
    """What runs, and who looks at it."""

    control_plane: ServerProcess
    http: httpx.Client
    database: Database
    watcher: Watcher
    logs: list[GatewayLog]
    installation: Installation
    report: dict[str, Any] = field(default_factory=dict)

    def apply(self, texts: list[str]) -> float:
        """Seconds until it was answered."""
        began = time.monotonic()
        body = {"files": documents.files(texts), "author": "bench", "reason": "bench"}
        answer = self.http.post("/api/v1/apply", json=body)
        if answer.status_code != 200:
            raise RuntimeError(answer.text[:500])
        return time.monotonic() - began

    def latest(self, kind: str, name: str) -> dict[str, Any]:
        """A document's newest revision."""
        found: dict[str, Any] = self.http.get(f"/api/v1/config/{kind}/{name}").json()
        return found


@dataclass(frozen=True, slots=True)
class Took:
    """One change, in seconds until the last gateway enforced it."""

    since_asked: float
    since_revision: float
    to_answer: float


def change_policies(fleet: Fleet, number: int, num_deployments: int, limit: int) -> list[Took]:
    """One threshold after the other, each in another deployment."""
    found = []
    for n in range(number):
        which = n * 7 % num_deployments
        before = fleet.latest("AdmissionPolicy", f"policy-{which:04}")["number"]
        is_in = functools.partial(_enforces, f"policy-{which:04}@{before + 1}")
        found.append(
            _take(
                fleet,
                f"service-{which:04}",
                is_in,
                documents.policy(which, max_queue=limit + n),
                ("AdmissionPolicy", f"policy-{which:04}"),
            )
        )
    return found


def _enforces(label: str, deployment: DeploymentPolicy) -> bool:
    return deployment.policy.revision == label


def change_models(fleet: Fleet, number: int, num_deployments: int, num_replicas: int) -> list[Took]:
    """One model after the other; the first that gateways see of it is that replicas leave."""
    return [
        _take(
            fleet,
            f"service-{which:04}",
            lambda each: len(each.replicas) < num_replicas,
            documents.model(which, fleet.installation.weights, 2048 + n),
            ("Model", f"model-{which:04}"),
        )
        for n in range(number)
        for which in [(3 + n * 11) % num_deployments]
    ]


def _take(
    fleet: Fleet,
    deployment: str,
    is_in: Callable[[DeploymentPolicy], bool],
    text: str,
    document: tuple[str, str],
) -> Took:
    fleet.watcher.seek({deployment: is_in})
    asked = time.time()
    to_answer = fleet.apply([text])
    version = fleet.watcher.wait(_ENFORCE_SECONDS)
    last = max(all_enforced(fleet.logs, version, _ENFORCE_SECONDS))
    revised = fleet.latest(*document)["created_at_unix_ns"] / 1e9
    return Took(last - asked, last - revised, to_answer)


def spread(values: list[float]) -> dict[str, float]:
    """Milliseconds."""
    ordered = sorted(values)
    return {
        "num": len(ordered),
        "p50_ms": 1e3 * statistics.median(ordered),
        "p99_ms": 1e3 * ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))],
        "max_ms": 1e3 * ordered[-1],
    }


def _tell(fleet: Fleet, name: str, took: list[Took]) -> None:
    if not took:
        return
    fleet.report[name] = spread([each.since_revision for each in took])
    fleet.report[f"{name}, since asked"] = spread([each.since_asked for each in took])
    fleet.report[f"{name}, until answered"] = spread([each.to_answer for each in took])


@contextlib.contextmanager
def _busy(fleet: Fleet, name: str) -> Iterator[None]:
    """How much of its core the control plane takes meanwhile, and its memory at the end."""
    pid = fleet.control_plane.pid
    wall, used = time.monotonic(), processor_seconds(pid)
    yield
    seconds = time.monotonic() - wall
    fleet.report[f"control plane, {name}"] = {
        "share_of_core": (processor_seconds(pid) - used) / seconds,
        "seconds": seconds,
        "resident_mib": resident_bytes(pid) / 2**20,
    }


def _look(fleet: Fleet, asked: argparse.Namespace) -> None:
    """What a person waits for."""
    for path in ("/", "/deployments", "/api/v1/overview"):
        times = []
        for _ in range(3):
            began = time.monotonic()
            answer = fleet.http.get(path, headers={"accept": "text/html"})
            times.append(time.monotonic() - began)
        fleet.report[f"GET {path}"] = {**spread(times), "status": answer.status_code}
    for name, texts in (
        ("one policy", [documents.policy(1, max_queue=999)]),
        ("every policy", [documents.policy(n, 999) for n in range(asked.deployments)]),
    ):
        file = fleet.installation.folder / "planned.yaml"
        file.write_text("---\n".join(texts))
        pid = fleet.control_plane.pid
        began, used = time.monotonic(), processor_seconds(pid)
        command = [sys.executable, "-m", "controlplane.cli", "plan", "-f", str(file)]
        done = subprocess.run(
            [*command, "--url", fleet.installation.url],
            capture_output=True, text=True, check=False, env=fleet.installation.environment(),
        )  # fmt: skip
        fleet.report[f"pilothouse plan, {name}"] = {
            "seconds": time.monotonic() - began,
            "control_plane_seconds": processor_seconds(pid) - used,
            "status": done.returncode,
        }


def _measure(fleet: Fleet, asked: argparse.Namespace) -> None:
    with _busy(fleet, "nothing changes"):
        time.sleep(_CALM_SECONDS)
    with _busy(fleet, "policies change"):
        took = change_policies(fleet, asked.changes, asked.deployments, 100)
    _tell(fleet, "a change", took)
    num_replicas = asked.deployments * asked.replicas
    set_failing(fleet.installation.state_dir, num_replicas * _SHARE_FAILING / _FAILING_SECONDS)
    with _busy(fleet, "policies change and replicas fail"):
        took = change_policies(fleet, asked.changes, asked.deployments, 10_000)
    set_failing(fleet.installation.state_dir, 0)
    _tell(fleet, "a change while replicas fail", took)
    _wait_until_whole(fleet, num_replicas)
    _tell(fleet, "a model", change_models(fleet, asked.models, asked.deployments, asked.replicas))
    _wait_until_whole(fleet, num_replicas)
    _look(fleet, asked)


def _wait_until_whole(fleet: Fleet, num_replicas: int) -> None:
    wait_until_settled(fleet.database, fleet.control_plane, _SETTLE_SECONDS)
    deadline = time.monotonic() + _SETTLE_SECONDS
    while num_ready(fleet.database) != num_replicas:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{num_ready(fleet.database)} of {num_replicas} replicas are ready")
        time.sleep(0.1)


def run(installation: Installation, asked: argparse.Namespace) -> dict[str, Any]:
    """Everything, in one report."""
    report: dict[str, Any] = {}
    num_replicas = asked.deployments * asked.replicas
    with (
        contextlib.closing(installation.open_config()) as database,
        installation.control_plane() as control_plane,
        httpx.Client(base_url=installation.url, trust_env=False, timeout=300) as http,
        watching(installation.url, installation.folder / "watcher") as watcher,
    ):
        fleet = Fleet(
            control_plane=control_plane, http=http, database=database, watcher=watcher,
            logs=[], installation=installation, report=report,
        )  # fmt: skip
        began = time.monotonic()
        texts = documents.fleet(asked.deployments, asked.replicas, installation.weights)
        to_answer = fleet.apply(texts)
        with _busy(fleet, "everything starts"):
            _wait_until_whole(fleet, num_replicas)
        report["from nothing"] = {
            "applied_seconds": to_answer, "ready_seconds": time.monotonic() - began
        }  # fmt: skip
        print(json.dumps(report, indent=1), flush=True)
        with installation.gateways(asked.gateways) as gateways:
            fleet.logs = list(gateways)
            all_enforced(fleet.logs, watcher.snapshot.version, _GATEWAYS_SECONDS)
            _measure(fleet, asked)
            report["gateways"] = {
                "number": len(gateways),
                "resident_mib": max(resident_bytes(g.pid) for g in gateways.values()) / 2**20,
            }
        report["snapshot"] = {
            "whole_bytes": max(watcher.num_bytes),
            "changes": len(watcher.num_change_bytes),
            "change_bytes": statistics.median(watcher.num_change_bytes),
            "largest_change_bytes": max(watcher.num_change_bytes),
        }
    report["passes"] = _passes(installation, asked)
    return report


def _passes(installation: Installation, asked: argparse.Namespace) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "ops.bench.fleet.passes", str(installation.state_dir),
        installation.urls[DatabaseKind.CONFIG], str(asked.deployments),
    ]  # fmt: skip
    with on_core(installation.cores.server):
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=installation.environment()
        )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--deployments", type=int, default=500)
    parser.add_argument("--replicas", type=int, default=10, help="of each deployment")
    parser.add_argument("--gateways", type=int, default=10)
    parser.add_argument("--changes", type=int, default=200, help="of policies, each time")
    parser.add_argument("--models", type=int, default=20, help="models that change")
    parser.add_argument("--postgresql", action="store_true", help="instead of SQLite")
    parser.add_argument("--keep", type=Path, help="a folder for logs and databases, not yet there")
    parser.add_argument("--json", type=Path, help="write the report there")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # end what it started
    with contextlib.ExitStack() as stack:
        folder = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        cores = choose_cores()
        urls = None
        if asked.postgresql:
            # With the server's own durability; like the gateways it is not on the core.
            with on_core(cores.client):
                cluster = stack.enter_context(
                    running_cluster({"fsync": "on", "synchronous_commit": "on"})
                )
            urls = dict.fromkeys(DatabaseKind, cluster.url(cluster.create()))
        with on_core(cores.client):
            report = run(Installation.make(folder, cores, urls), asked)
    text = json.dumps(report, indent=1)
    print(text)
    if asked.json is not None:
        asked.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
