"""A real HTTP server that shows whatever metrics page it is told to."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MetricsServer:
    """Listens while the block of `serving` lasts."""

    def __init__(self, port: int = 0) -> None:
        """`port` 0: one that is free."""
        self.page = ""
        """What /metrics answers; empty: 404, as of a server that has none."""
        self.redirects_to = ""
        """Where it sends whoever asks; empty: nowhere."""
        self.headers: list[dict[str, str]] = []
        """Of the calls, names in small letters."""
        self.stalls = threading.Event()
        """Set: it takes calls and never answers."""
        self.healthy = threading.Event()
        """Set: its health page is answered all the same."""
        self.asked: list[str] = []
        """The paths that were called."""
        self.may_go = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.headers.append({k.lower(): v for k, v in self.headers.items()})
                if self.path == "/health" and server.healthy.is_set():
                    self.send_response(200)
                    self.send_header("content-length", "0")
                    self.end_headers()
                    return
                if server.stalls.is_set():
                    server.may_go.wait(60)
                    return
                if server.redirects_to and self.path != server.redirects_to:
                    self.send_response(302)
                    self.send_header("location", server.redirects_to)
                    self.end_headers()
                    return
                is_there = self.path in ("/metrics", server.redirects_to) and server.page
                body = server.page.encode() if is_there else b"no such page"
                self.send_response(200 if is_there else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._http.daemon_threads = True

    @property
    def address(self) -> str:
        """host:port."""
        return f"127.0.0.1:{self._http.server_address[1]}"

    def serve(self) -> None:
        """Until `close`."""
        self._http.serve_forever(poll_interval=0.01)

    def close(self) -> None:
        """Let go of whoever still waits."""
        self.may_go.set()
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def serving(at: str | None = None) -> Iterator[MetricsServer]:
    """One server on a port of its own, or at the address where another one was."""
    server = MetricsServer(0 if at is None else int(at.rpartition(":")[2]))
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


def vllm_page(
    *,
    running: float = 0,
    waiting: float = 0,
    kv: float = 0.0,
    preemptions: float = 0,
    prompt: float = 0,
    generated: float = 0,
    finished: float = 0,
) -> str:
    """As vLLM writes it, cut down to what these tests are about."""
    labels = '{engine="0",model_name="m"}'
    return (
        "# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{labels} {running:.1f}\n"
        f"vllm:num_requests_waiting{labels} {waiting:.1f}\n"
        f"vllm:kv_cache_usage_perc{labels} {kv}\n"
        f"vllm:num_preemptions_total{labels} {preemptions:.1f}\n"
        f"vllm:prompt_tokens_total{labels} {prompt:.1f}\n"
        f"vllm:generation_tokens_total{labels} {generated:.1f}\n"
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} '
        f"{finished:.1f}\n"
    )
