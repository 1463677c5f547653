"""A control plane with made-up traffic, to look at the console without running anything else.

    .venv/bin/python ops/seeded_console.py --port 8790

Config, replicas, gateways and requests are invented; everything that shows them is the real
thing. `--empty` leaves all of it out. The state lives in a temporary directory.
"""

import argparse
import tempfile
import threading
import time
from pathlib import Path
from random import Random

import uvicorn
from fastapi import FastAPI

from controlplane.api import events, overview, records, requests
from controlplane.api.authentication import install_authentication
from controlplane.console.pages import install_console
from controlplane.operator.observed import ObservedReplica, ObservedState
from controlplane.specs.documents import load_documents
from controlplane.store.catalog import StoreCatalog
from controlplane.store.database import DatabaseKind, create_or_open_database, sqlite_url
from controlplane.store.deployments import set_observed_generation
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.replicas import ReplicaState, add_replica, move_replica
from controlplane.store.revisions import apply_documents
from dataplane.access import AuthMode
from dataplane.engine import EngineStats, ReplicaSpec
from dataplane.lifecycle import RequestCounts
from dataplane.record import RequestRecord
from dataplane.report import GatewayReport, ReplicaReport
from ops.sample_requests import KINDS, Sample, traffic

_DOCUMENTS = """
apiVersion: pilothouse/v1
kind: Model
metadata: {name: smollm2}
spec: {artifact: {path: /models/smollm2.gguf}}
---
apiVersion: pilothouse/v1
kind: EngineConfig
metadata: {name: paged}
spec: {engine: paged}
---
apiVersion: pilothouse/v1
kind: AdmissionPolicy
metadata: {name: chat}
spec: {classes: [{name: interactive}]}
---
apiVersion: pilothouse/v1
kind: SLOContract
metadata: {name: chat}
spec:
  boundary: server
  window: 30d
  classes:
    interactive:
      objectives:
        - {signal: ttft, at_most: 300ms, for: 99%}
        - {signal: tpot, at_most: 40ms, for: 95%}
      together: {of: [ttft, tpot], for: 95%}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {name: chat}
spec: {model: smollm2, engine: paged, policy: chat, contract: chat, replicas: 3}
---
apiVersion: pilothouse/v1
kind: Deployment
metadata: {name: summarize}
spec: {model: smollm2, engine: paged, policy: chat, replicas: 1}
"""
_MINUTE = 60 * 10**9


def create_app(state_dir: Path) -> FastAPI:
    """The console and the API below it, over empty databases in `state_dir`."""
    app = FastAPI(title="Pilothouse")
    for module in (records, requests, overview, events):
        app.include_router(module.router)
    for kind, name in ((DatabaseKind.CONFIG, "config_db"), (DatabaseKind.REQUESTS, "request_db")):
        url = sqlite_url(state_dir / f"{kind}.db")
        setattr(app.state, name, create_or_open_database(url, kind))
    app.state.observed = ObservedState()
    install_authentication(app, app.state.config_db, AuthMode.OFF)
    install_console(app)
    return app


def close_app(app: FastAPI) -> None:
    """Close the databases."""
    app.state.config_db.close()
    app.state.request_db.close()


def seed(app: FastAPI, now_unix_ns: int, num_requests: int = 400, has_trouble: bool = True) -> None:
    """Two deployments, half an hour of traffic, one request of every kind as the newest."""
    _deploy(app, now_unix_ns)
    _observe(app.state.observed, now_unix_ns, has_trouble)
    store(app, traffic(num_requests, now_unix_ns - _MINUTE))
    store(app, every_kind(now_unix_ns, 10_000))


def every_kind(now_unix_ns: int, first_sequence: int) -> list[RequestRecord]:
    """One request of every kind, a few seconds apart."""
    return [
        make(
            Sample(
                sequence=first_sequence + number,
                arrived_at_unix_ns=now_unix_ns - (number + 2) * 3 * 10**9,
                queue_seconds=0.41 if kind == "cut_off" else 0.018,
            )
        )
        for number, (kind, make) in enumerate(KINDS.items())
    ]


def store(app: FastAPI, made: list[RequestRecord]) -> None:
    """Take records in, as if a gateway had sent them."""
    batch = RecordBatch(gateway_id="gateway-0-9c1f", num_lost=0, records=tuple(made))
    with app.state.request_db.session() as session:
        store_batch(session, batch, Random(1), ReservoirSizes())


def _deploy(app: FastAPI, now_unix_ns: int) -> None:
    with app.state.config_db.session() as session:
        loaded = load_documents([("seed.yaml", _DOCUMENTS)], StoreCatalog(session))
        if loaded.problems:
            raise ValueError("; ".join(str(problem) for problem in loaded.problems))
        apply_documents(session, loaded.documents, author="seed", reason="to look at")
        for replica_id in ("chat-1", "chat-2", "chat-3", "summarize-1"):
            spec = ReplicaSpec(
                replica_id=replica_id,
                deployment=replica_id.rpartition("-")[0],
                engine="paged",
                model_name="smollm2",
                model_revision="smollm2@1",
                engine_config_revision="paged@1",
                artifact="/models/smollm2.gguf",
            )
            add_replica(
                session, spec, spec_digest="0" * 64, launcher="local", reason="it was missing",
                now_unix_ns=now_unix_ns - 90 * _MINUTE,
            )  # fmt: skip
            set_observed_generation(session, spec.deployment, 1)
            move_replica(
                session, replica_id, ReplicaState.READY, reason="it generated a token",
                now_unix_ns=now_unix_ns - 89 * _MINUTE,
            )  # fmt: skip


def _observe(observed: ObservedState, now_unix_ns: int, has_trouble: bool) -> None:
    failed = "summarize-1" if has_trouble else ""
    observed.set_replicas(
        [
            ObservedReplica(
                replica_id=replica_id,
                deployment=replica_id.rpartition("-")[0],
                engine="paged",
                model_revision="smollm2@1",
                state="failed" if replica_id == failed else "ready",
                reason="exit code 137, killed by the kernel" if replica_id == failed else "probed",
                stage="serving",
                pid=4000 + number,
                address=f"127.0.0.1:{40100 + number}",
                metrics_address=f"127.0.0.1:{40200 + number}",
                start_stages={"acquire": 0.1, "load": 1.9, "warm_up": 0.8},
                probed_at_unix_ns=None if replica_id == failed else now_unix_ns - 4 * 10**9,
                observed_at_unix_ns=now_unix_ns,
            )
            for number, replica_id in enumerate(("chat-1", "chat-2", "chat-3", "summarize-1"))
        ]
    )
    observed.put_gateway(_report(now_unix_ns))


def _report(now_unix_ns: int) -> GatewayReport:
    return GatewayReport(
        gateway_id="gateway-0-9c1f",
        name="gateway-0",
        address="http://127.0.0.1:9",
        started_at_unix_ns=now_unix_ns - 90 * _MINUTE,
        reported_at_unix_ns=now_unix_ns,
        snapshot_version=31,
        snapshot_error=None,
        counts=RequestCounts(
            arrived=412, invalid=8, undecided=0, rejected=11, admitted=393, active=5, finished=388
        ),
        num_queued=2,
        oldest_queued_seconds=0.24,
        num_records_spooled=0,
        num_records_lost=0,
        replicas=tuple(
            ReplicaReport(
                replica_id=replica_id,
                is_connected=True,
                num_outstanding=2,
                stats=EngineStats(
                    age_seconds=0.3, max_num_seqs=32, num_running=running, num_waiting=0,
                    num_blocks=512, num_free_blocks=512 - 70 * running,
                    num_referenced_blocks=70 * running,
                ),
            )
            for replica_id, running in (("chat-1", 2), ("chat-2", 3), ("chat-3", 0))
        ),
    )  # fmt: skip


def _keep_reporting(observed: ObservedState) -> None:
    while True:
        time.sleep(1)
        observed.put_gateway(_report(time.time_ns()))


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8790)
    parser.add_argument("--empty", action="store_true", help="no data at all")
    parser.add_argument("--well", action="store_true", help="without trouble")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        app = create_app(Path(directory))
        if not arguments.empty:
            seed(app, time.time_ns(), has_trouble=not arguments.well)
            threading.Thread(
                target=_keep_reporting, args=(app.state.observed,), daemon=True
            ).start()
        uvicorn.run(app, port=arguments.port, log_level="warning", timeout_graceful_shutdown=1)
        close_app(app)


if __name__ == "__main__":
    main()
