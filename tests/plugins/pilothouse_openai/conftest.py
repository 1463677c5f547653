"""An endpoint that answers as a test asks."""

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from tests.plugins.pilothouse_openai.scripted_endpoint import Endpoint


@pytest.fixture
def endpoint() -> Iterator[tuple[Endpoint, str]]:
    served = Endpoint()
    server = uvicorn.Server(
        uvicorn.Config(served.app, port=0, log_level="error", ws="none", lifespan="off")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield served, f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
