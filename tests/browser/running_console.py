"""The seeded console, served to a browser."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from ops.seeded_console import close_app, create_app, seed


@dataclass(frozen=True)
class RunningConsole:
    """Where it listens, and the application behind it."""

    url: str
    app: FastAPI


@contextmanager
def serve_console(state_dir: Path, *, is_empty: bool = False) -> Iterator[RunningConsole]:
    """Serve it until the block ends."""
    app = create_app(state_dir)
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    if not is_empty:
        seed(app, time.time_ns(), num_requests=40, gateway_address=url)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield RunningConsole(url, app)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
        close_app(app)
