"""A whole control plane over real HTTP, on a port of its own, in this process."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import uvicorn

from controlplane.api.app import create_app
from controlplane.api.settings import ControlPlaneSettings
from controlplane.diagnosis.always_on.settings import AlwaysOnSettings
from controlplane.open_state import OpenState
from controlplane.slo.alerting_settings import AlertingSettings
from controlplane.store.connection import DatabaseKind, default_paths
from tests.controlplane.config_documents import SERVICE
from tests.databases import create_sqlite


@contextmanager
def serve_control_plane(
    state_dir: Path,
    always_on: AlwaysOnSettings | None = None,
    alerting: AlertingSettings | None = None,
) -> Iterator[tuple[str, OpenState]]:
    """Its URL and what it holds open, until the block ends."""
    for kind, path in default_paths(state_dir).items():
        create_sqlite(path, DatabaseKind(kind))
    settings = ControlPlaneSettings(
        state_dir=state_dir,
        always_on=always_on or AlwaysOnSettings(),
        alerting=alerting or AlertingSettings(),
    )
    opened = settings.open_state()
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(opened), log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server ended while it started"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", opened
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def serve_service(state_dir: Path) -> Iterator[str]:
    """The URL of one with a deployment under a contract: SERVICE."""
    with serve_control_plane(state_dir) as (url, _):
        files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(SERVICE)]
        body = {"files": files, "author": "ann", "reason": ""}
        applied = httpx.post(f"{url}/api/v1/apply", json=body, trust_env=False)
        assert applied.status_code == 200, applied.text
        yield url
