"""A webhook that somebody runs: it keeps what it was told, and answers as it is set to."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "T000-B000-verysecret"


@dataclass(slots=True, kw_only=True)
class WebhookServer:
    """One of them."""

    url: str = ""
    status: int = 200
    answer: str = "ok"
    heard: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    came: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, number: int, seconds: float = 30.0) -> list[dict[str, Any]]:
        """What was heard, once it is as much as `number`."""
        with self.came:
            assert self.came.wait_for(lambda: len(self.heard) >= number, seconds), self.heard
            return list(self.heard)


@contextmanager
def serve_webhook() -> Iterator[WebhookServer]:
    """Until the block ends."""
    hook = WebhookServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self.send_response(hook.status)
            if 300 <= hook.status < 400:
                self.send_header("location", f"{hook.url}-elsewhere")
            self.end_headers()
            self.wfile.write(hook.answer.encode())
            with hook.came:
                hook.headers.append(dict(self.headers))
                hook.heard.append(json.loads(body))
                hook.came.notify_all()

        def log_message(self, *_: object) -> None:
            """Nothing: tests show what they want to."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    hook.url = f"http://127.0.0.1:{server.server_port}/services/{SECRET}"
    try:
        yield hook
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
