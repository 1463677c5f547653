"""A real OTLP receiver for tests, over gRPC and over HTTP, that keeps what it was sent."""

import contextlib
import gzip
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class Received:
    """What came in so far."""

    endpoint: str
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)

    def spans(self) -> list[Span]:
        """Of all requests, in order."""
        return [
            span
            for request in self.requests
            for by_resource in request.resource_spans
            for by_scope in by_resource.scope_spans
            for span in by_scope.spans
        ]

    def wait_for_spans(self, num: int, timeout_seconds: float = 5.0) -> list[Span]:
        """Once `num` came in, all of them."""
        deadline = time.monotonic() + timeout_seconds
        while len(self.spans()) < num:
            assert time.monotonic() < deadline, f"only {len(self.spans())} of {num} spans came"
            time.sleep(0.01)
        return self.spans()


class _GrpcReceiver(TraceServiceServicer):
    def __init__(self, received: Received) -> None:
        self._received = received

    def Export(  # noqa: N802 - the name is the protocol's
        self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        self._received.requests.append(request)
        return ExportTraceServiceResponse()


@contextlib.contextmanager
def grpc_receiver() -> Iterator[Received]:
    """Listens on a free port while inside."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    port = server.add_insecure_port("127.0.0.1:0")
    received = Received(f"http://127.0.0.1:{port}")
    # The generated registration function has no types.
    add_TraceServiceServicer_to_server(  # type: ignore[no-untyped-call]
        _GrpcReceiver(received), server
    )
    server.start()
    try:
        yield received
    finally:
        server.stop(grace=None).wait()


@contextlib.contextmanager
def http_receiver(status: int = 200, delay_seconds: float = 0.0) -> Iterator[Received]:
    """Listens on a free port while inside, and answers with `status`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/traces"
            assert self.headers["content-type"] == "application/x-protobuf"
            time.sleep(delay_seconds)
            if status == 200:
                received.requests.append(ExportTraceServiceRequest.FromString(body))
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received = Received(f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()
