"""An OTLP receiver that keeps what it is sent in a file, as a collector's file exporter would.

One ExportTraceServiceRequest a line, in OTLP's JSON form: what `pilothouse fit --vllm-spans`
reads. HTTP alone: exporters are set to `http/protobuf`. Also a command, for a server that runs
already; Ctrl-C ends it:

    .venv/bin/python -m ops.calibration.span_file 4318 traces.json
"""

import argparse
import base64
import contextlib
import gzip
import json
import threading
import zlib
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TextIO

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

_PATH = "/v1/traces"
_PROTOBUF = "application/x-protobuf"
_IDS = ("traceId", "spanId", "parentSpanId")


@contextlib.contextmanager
def keeping_spans(path: Path, port: int = 0) -> Iterator[str]:
    """Append to `path` while inside; the address to send to. Raises OSError."""
    with path.open("a", encoding="utf-8") as file, _Server(port, file) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}{_PATH}"
        finally:
            server.shutdown()
            thread.join()


def encode_line(request: ExportTraceServiceRequest) -> str:
    """OTLP's JSON: protobuf's, but with ids in hex and enums as numbers."""
    document = MessageToDict(request, use_integers_for_enums=True)
    for of_resource in document.get("resourceSpans", ()):
        for of_scope in of_resource.get("scopeSpans", ()):
            for span in of_scope.get("spans", ()):
                _write_ids(span)
    return json.dumps(document, separators=(",", ":")) + "\n"


def _write_ids(span: dict[str, Any]) -> None:
    for holder in (span, *span.get("links", ())):
        for name in _IDS:
            if name in holder:
                holder[name] = base64.b64decode(holder[name]).hex()


class _Server(ThreadingHTTPServer):
    def __init__(self, port: int, file: TextIO) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self._file = file
        self._lock = threading.Lock()

    def keep(self, request: ExportTraceServiceRequest) -> None:
        """One line at a time."""
        line = encode_line(request)
        with self._lock:
            self._file.write(line)
            self._file.flush()


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        """Keep it, or say why not."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path != _PATH or self.headers.get("content-type") != _PROTOBUF:
            self._answer(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send {_PROTOBUF} to {_PATH}".encode())
            return
        try:
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            request = ExportTraceServiceRequest.FromString(body)
        except (OSError, EOFError, zlib.error, DecodeError) as error:
            self._answer(HTTPStatus.BAD_REQUEST, str(error).encode())
            return
        self.server.keep(request)
        self._answer(HTTPStatus.OK, ExportTraceServiceResponse().SerializeToString())

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", _PROTOBUF)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("port", type=int)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt), keeping_spans(options.file, options.port) as url:
        print(f"spans that are sent to {url} are kept in {options.file}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
