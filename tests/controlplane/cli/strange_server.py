"""Servers that are no control plane: each says one thing, whatever it is asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def strange_server(
    status: int,
    body: str,
    headers: dict[str, str] | None = None,
    keys_seen: list[str | None] | None = None,
) -> Iterator[tuple[str, list[str]]]:
    """Its URL, and the paths it was asked for, until the block ends.

    What every request showed as authorization goes into `keys_seen`.
    """
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if keys_seen is not None:
                keys_seen.append(self.headers["authorization"])
            data = body.encode()
            self.send_response(status)
            for name, value in {"content-type": "application/json", **(headers or {})}.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_arguments: Any) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
