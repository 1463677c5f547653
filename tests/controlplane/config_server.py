"""The config API, served over real HTTP on a port of its own."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvicorn
from fastapi import FastAPI
from sqlalchemy import func, select

from controlplane.api.authentication import install_authentication
from controlplane.api.config import router
from controlplane.api.config_export import router as export_router
from controlplane.api.config_history import router as history_router
from controlplane.api.deployments import router as deployments_router
from controlplane.api.errors import add_error_handlers
from controlplane.api.plan import router as plan_router
from controlplane.api.replicas import router as replicas_router
from controlplane.operator.feed import SnapshotFeed
from controlplane.operator.installed import InstalledPlugins
from controlplane.operator.observed import ObservedState
from controlplane.operator.operator import Operator
from controlplane.retention_worker import RetentionWorker
from controlplane.store.connection import DatabaseKind
from controlplane.store.contract_terms import ContractTermsBook
from controlplane.store.database import Database
from controlplane.store.retention import Retention
from controlplane.store.tables import RevisionRow
from dataplane.access import AuthMode
from tests.controlplane.config_documents import config_database
from tests.databases import open_sqlite


@dataclass
class ConfigServer:
    """Where it listens, and how often it announced a change."""

    url: str
    http: httpx.Client
    app: FastAPI
    observed: ObservedState = field(default_factory=ObservedState)
    """What the operator would have seen."""
    announcements: list[int] = field(default_factory=list)
    """Length of the config's history at each announcement."""

    @property
    def request_db(self) -> Database:
        """Where requests are recorded."""
        made: Database = self.app.state.request_db
        return made


@contextmanager
def serve_config(folder: Path, database: Database | None = None) -> Iterator[ConfigServer]:
    """Serve a fresh config database, in `folder` unless it is given, until the block ends."""
    database = database or config_database(folder)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = FastAPI()
    served = ConfigServer(url, httpx.Client(base_url=url), app)
    app.include_router(router)
    app.include_router(export_router)
    app.include_router(plan_router)
    app.include_router(history_router)
    app.include_router(replicas_router)
    app.include_router(deployments_router)
    add_error_handlers(app)
    app.state.observed = served.observed
    app.state.config_db = database
    app.state.contract_terms = ContractTermsBook(app.state.config_db)
    requests = folder / "requests-of-config-server.db"
    app.state.request_db = open_sqlite(requests, DatabaseKind.REQUESTS)
    app.state.retention = RetentionWorker(app.state.request_db, Retention())  # never started
    # Never started: it holds nothing back, and brings nothing about.
    app.state.operator = Operator(
        database, InstalledPlugins(folder), served.observed, SnapshotFeed()
    )
    install_authentication(app, database, AuthMode.OFF)
    app.state.on_config_change = lambda: served.announcements.append(count_revisions(database))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server ended while it started"
            time.sleep(0.01)
        yield served
    finally:
        server.should_exit = True
        served.http.close()
        thread.join()
        listener.close()
        app.state.request_db.close()
        database.close()


def count_revisions(database: Database) -> int:
    """Every revision of every document."""
    with database.reading() as session:
        return session.scalars(select(func.count()).select_from(RevisionRow)).one()
