"""A control plane with made-up traffic, to look at the console without running anything else.

    .venv/bin/python ops/seeded_console.py --port 8790

Config, replicas, gateways and requests are invented; everything that shows them is the real
thing. `--empty` leaves all of it out. The state lives in a temporary directory.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import uvicorn
from fastapi import FastAPI

from controlplane.api.app import api_routes
from controlplane.api.authentication import install_authentication
from controlplane.api.shared import install_shared
from controlplane.console.pages import install_console
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.diagnosis.always_on.worker import DiagnosisWorker
from controlplane.operator.observed import ObservedState
from controlplane.process_history import ProcessHistory
from controlplane.slo.alerting_settings import AlertingSettings
from controlplane.slo.alerting_worker import AlertingWorker
from controlplane.slo.reading import StandingReader
from controlplane.store.connection import database_urls
from controlplane.store.database import DatabaseKind, create_or_open_database
from controlplane.store.overrides import (
    NewOverride,
    add_override,
    end_override,
    list_in_force,
)
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from dataplane.access import AuthMode
from dataplane.policy import OverrideKind
from dataplane.record import RequestRecord
from ops.sample_requests import KINDS, Sample, traffic
from ops.seeded_budgets import store_budgets, store_silences
from ops.seeded_incidents import last_diagnoses, store_alerts, store_incidents
from ops.seeded_rollouts import SeededRollouts, store_rollouts
from ops.seeded_state import (
    MINUTE_NS,
    deploy,
    gateway_report,
    holds,
    live_requests,
    observed_replicas,
    store_gauges,
    strays,
    under_seeded_config,
)


@dataclass(frozen=True, slots=True)
class SeededOperator:
    """What pages read of an operator; nothing is started here."""

    holds: dict[str, str]
    retries: dict[str, int] = field(default_factory=dict)


def create_app(state_dir: Path, urls: Mapping[DatabaseKind, str] | None = None) -> FastAPI:
    """The console and the API below it, over empty databases in `state_dir` or at `urls`."""
    urls = urls or database_urls(state_dir, None, None)
    app = FastAPI(title="Pilothouse")
    app.router.routes.extend(api_routes())
    for kind, name in ((DatabaseKind.CONFIG, "config_db"), (DatabaseKind.REQUESTS, "request_db")):
        setattr(app.state, name, create_or_open_database(urls[kind], kind))
    app.state.observed = ObservedState()
    app.state.operator = SeededOperator({})
    app.state.rollouts = SeededRollouts()
    app.state.on_config_change = lambda: None  # overrides are told of to nobody here
    app.state.process_history = ProcessHistory(state_dir)
    app.state.standings = StandingReader()
    app.state.alerting = AlertingWorker(  # nor is its
        app.state.config_db, app.state.request_db, app.state.observed, AlertingSettings()
    )
    app.state.diagnosis = DiagnosisWorker(  # its thread is not started here
        app.state.config_db,
        app.state.request_db,
        app.state.observed,
        app.state.process_history,
        state_dir,
        AlwaysOnSettings(),
    )
    app.add_api_route("/internal/requests", lambda: live_requests(time.time_ns()))
    install_authentication(app, app.state.config_db, AuthMode.OFF)
    install_console(app)
    install_shared(app, app.state.config_db)
    return app


def close_app(app: FastAPI) -> None:
    """Close the databases."""
    app.state.config_db.close()
    app.state.request_db.close()


def seed(
    app: FastAPI,
    now_unix_ns: int,
    num_requests: int = 400,
    has_trouble: bool = True,
    gateway_address: str = "http://127.0.0.1:9",
) -> None:
    """Two deployments, half an hour of traffic, one request of every kind as the newest.

    At `gateway_address` a gateway may tell its requests in flight; by default none answers.
    """
    state = app.state
    deploy(state.config_db, now_unix_ns, has_trouble)
    state.operator = SeededOperator(
        holds(has_trouble), {"summarize": now_unix_ns + 41 * 10**9} if has_trouble else {}
    )
    state.observed.set_strays(strays(now_unix_ns) if has_trouble else [])
    state.observed.set_replicas(observed_replicas(now_unix_ns, has_trouble))
    state.observed.put_gateway(gateway_report(now_unix_ns, gateway_address))
    store_gauges(state.request_db, now_unix_ns)
    if has_trouble:
        store_incidents(state.config_db, now_unix_ns)
    for last in last_diagnoses(now_unix_ns, has_trouble=has_trouble):
        state.diagnosis.diagnoses.put(last)
    store_budgets(state.request_db, now_unix_ns)
    store_silences(state.config_db, now_unix_ns)
    state.rollouts = store_rollouts(state.config_db, now_unix_ns)
    store(app, under_seeded_config(traffic(num_requests, now_unix_ns - MINUTE_NS)))
    store(app, under_seeded_config(every_kind(now_unix_ns, 10_000)))


def override(app: FastAPI, now_unix_ns: int) -> None:
    """Let two overrides be in force, and one be over."""
    with app.state.config_db.session() as session:
        over = add_override(session, _override("chat-9 is slow"), actor="anna")
        end_override(session, over.override_id, actor="bo", reason="it is replaced")
        add_override(session, _override("launch day", "interactive"), actor="anna")
        add_override(session, _override("chat limits are too low since noon"), actor="bo")
        app.state.observed.set_overrides(list_in_force(session, now_unix_ns + MINUTE_NS))


def _override(reason: str, request_class: str | None = None) -> NewOverride:
    return NewOverride(
        kind=OverrideKind.BYPASS,
        deployment="chat",
        reason=reason,
        seconds=7200,
        request_class=request_class,
    )


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


def _keep_reporting(observed: ObservedState, address: str) -> None:
    while True:
        time.sleep(1)
        observed.put_gateway(gateway_report(time.time_ns(), address))


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
            address = f"http://127.0.0.1:{arguments.port}"
            well = arguments.well
            now = time.time_ns()
            seed(app, now, has_trouble=not well, gateway_address=address)
            if not well:
                override(app, now)
                store_alerts(app.state.config_db, now)
            observed = app.state.observed
            threading.Thread(target=_keep_reporting, args=(observed, address), daemon=True).start()
        uvicorn.run(app, port=arguments.port, log_level="warning", timeout_graceful_shutdown=1)
        close_app(app)


if __name__ == "__main__":
    main()
