"""A server that says of itself what vLLM does, small enough to start in a moment.

It starts a child of its own, as real ones do, and tells both process ids in a file. It is an
executable program: a test copies it, with the interpreter that runs the test in its first line.
"""

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMPLETION = {
    "choices": [{"index": 0, "text": "-", "finish_reason": "length"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}


class Handler(BaseHTTPRequestHandler):
    """Answers at once."""

    def do_GET(self) -> None:
        is_busy = Path(os.environ.get("SMALL_BUSY", "/nonexistent")).exists()
        answers: dict[str, Any] = {
            "/health": {},
            "/version": {"version": "0.32.0"},
            "/v1/models": {"data": [{"id": "demo", "max_model_len": 64}]},
            "/metrics": f'vllm:num_requests_running{{engine="0"}} {int(is_busy)}.0\n',
        }
        self.say(answers.get(self.path))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.say(COMPLETION)

    def say(self, answer: Any) -> None:
        body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def main() -> None:
    if seconds := os.environ.get("SMALL_COMPILES"):  # as two workers write it
        for took in ("takes", "took"):
            os.write(1, f"INFO [monitor.py:34] torch.compile {took} {seconds} s\n".encode())
    if os.environ.get("SMALL_FAILS"):
        sys.exit("no room for the KV cache: lower max_model_len")
    child = subprocess.Popen(["sleep", "1000"])
    told = Path(os.environ["SMALL_PIDS"])
    told.with_suffix(".new").write_text(f"{os.getpid()} {child.pid}")
    told.with_suffix(".new").rename(told)
    port = int(sys.argv[sys.argv.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    main()
