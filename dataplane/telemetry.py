"""OpenTelemetry spans of a request, built from its finished record and from nothing else.

Times are explicit, no span is ever left open, and a request costs the event loop one append
to a bounded queue: a thread builds the spans and sends them by OTLP. Span ids of the children
are derived from the request's, so the same record always makes the same spans.
"""

import asyncio
import hashlib
import os
import threading
from collections import deque
from importlib import metadata

import structlog
from opentelemetry.sdk.environment_variables import (
    OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_EXPORTER_OTLP_PROTOCOL,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
    OTEL_SDK_DISABLED,
    OTEL_SERVICE_NAME,
)
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import Event as SpanEvent
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter as OtlpExporter
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from dataplane import names
from dataplane.lifecycle import Event
from dataplane.record import RequestRecord, TraceContext
from dataplane.span_attributes import (
    attributes_of,
    event_attributes,
    events_by_span,
    interval_attributes,
    is_failure,
)
from dataplane.spans import SpanInterval, span_intervals

_SCOPE = InstrumentationScope(names.TELEMETRY_SCOPE, metadata.version("pilothouse"))
_IDS = RandomIdGenerator()
_W3C = TraceContextTextMapPropagator()

_GRPC = "grpc"
_HTTP = "http/protobuf"
_MAX_QUEUED_RECORDS = 4096
_MAX_BATCH_RECORDS = 128
_LINGER_SECONDS = 0.5


def start_trace(traceparent: str | None, tracestate: str | None) -> TraceContext:
    """The context of a new `request` span under the caller's, by the W3C headers.

    A header that is missing or not valid starts a new, sampled trace.
    """
    carrier = {
        key: value
        for key, value in (("traceparent", traceparent), ("tracestate", tracestate))
        if value is not None
    }
    remote = get_current_span(_W3C.extract(carrier)).get_span_context()
    span_id = format_span_id(_IDS.generate_span_id())
    if not remote.is_valid:
        return TraceContext(trace_id=format_trace_id(_IDS.generate_trace_id()), span_id=span_id)
    return TraceContext(
        trace_id=format_trace_id(remote.trace_id),
        span_id=span_id,
        parent_span_id=format_span_id(remote.span_id),
        is_sampled=remote.trace_flags.sampled,
        trace_state=remote.trace_state.to_header(),
    )


def traceparent_of(trace: TraceContext) -> str:
    """The header that makes what an engine does a child of `request`."""
    return f"00-{trace.trace_id}-{trace.span_id}-{'01' if trace.is_sampled else '00'}"


def spans_of(record: RequestRecord, resource: Resource) -> list[ReadableSpan]:
    """The spans of a finished request, `request` first, its children after it.

    A span that never opened is not there. One that never closed ends with the last event that
    is known, marked `unobservable`; a cleanup that never closed is marked as leaked.
    """
    builder = _SpanBuilder(record, resource)
    intervals = [i for i in span_intervals(record) if i.name in names.SPAN_NAMES]
    return [builder.build(interval) for interval in intervals]


class _SpanBuilder:
    """Makes the spans of one record."""

    def __init__(self, record: RequestRecord, resource: Resource) -> None:
        self._record = record
        self._resource = resource
        self._last_at = max((event.at for event in record.events), default=0.0)
        self._events = events_by_span(record.events)

    def build(self, interval: SpanInterval) -> ReadableSpan:
        record = self._record
        is_request = interval.name == names.SPAN_REQUEST
        end = interval.end if interval.end is not None else self._last_at
        return ReadableSpan(
            name=interval.name,
            context=self._context(interval.name),
            parent=self._remote_parent() if is_request else self._context(names.SPAN_REQUEST),
            resource=self._resource,
            attributes=interval_attributes(interval) | attributes_of(interval.name, record),
            events=[self._event(event) for event in self._events.get(interval.name, ())],
            kind=SpanKind.SERVER if is_request else SpanKind.INTERNAL,
            status=_status(record) if is_request else Status(StatusCode.UNSET),
            start_time=self._unix_ns(interval.start),
            end_time=self._unix_ns(max(end, interval.start)),
            instrumentation_scope=_SCOPE,
        )

    def _unix_ns(self, at: float) -> int:
        return self._record.arrived_at_unix_ns + round(at * 1e9)

    def _context(self, name: str) -> SpanContext:
        trace = self._record.trace
        is_request = name == names.SPAN_REQUEST
        return self._span_context(trace.span_id if is_request else child_span_id(trace, name))

    def _remote_parent(self) -> SpanContext | None:
        parent = self._record.trace.parent_span_id
        return None if parent is None else self._span_context(parent, is_remote=True)

    def _span_context(self, span_id: str, is_remote: bool = False) -> SpanContext:
        trace = self._record.trace
        return SpanContext(
            trace_id=int(trace.trace_id, 16),
            span_id=int(span_id, 16),
            is_remote=is_remote,
            trace_flags=TraceFlags(TraceFlags.SAMPLED if trace.is_sampled else TraceFlags.DEFAULT),
            trace_state=TraceState.from_header([trace.trace_state] if trace.trace_state else []),
        )

    def _event(self, event: Event) -> SpanEvent:
        return SpanEvent(
            event.kind.value, event_attributes(event), timestamp=self._unix_ns(event.at)
        )


def child_span_id(trace: TraceContext, name: str) -> str:
    """The id of a child of `request`: the same for the same record, wherever it is built."""
    seed = f"{trace.trace_id}/{trace.span_id}/{name}".encode()
    return hashlib.blake2b(seed, digest_size=8).hexdigest()


def _status(record: RequestRecord) -> Status:
    if not is_failure(record):
        return Status(StatusCode.UNSET)
    return Status(StatusCode.ERROR, record.reason or record.disposition.value)


class SpanExporter:
    """Sends the spans of finished records to an OTLP backend, or nowhere.

    What does not fit into the queue and what the backend did not take is dropped and counted;
    a backend that is away harms nothing else.
    """

    def __init__(
        self,
        otlp: OtlpExporter | None,
        resource: Resource,
        max_queued_records: int = _MAX_QUEUED_RECORDS,
    ) -> None:
        self._num_surplus = 0
        self._num_failed = 0  # the thread's alone, so that no count is lost between the two
        self._otlp = otlp
        self._resource = resource
        self._max_queued_records = max_queued_records
        self._queue: deque[RequestRecord] = deque()
        self._wake = threading.Event()
        self._is_closing = False
        self._log = structlog.get_logger(__name__)
        self._thread: threading.Thread | None = None
        if otlp is not None:
            self._thread = threading.Thread(target=self._work, name="span-exporter", daemon=True)
            self._thread.start()

    @property
    def num_dropped(self) -> int:
        """Spans that were not exported, and will not be."""
        return self._num_surplus + self._num_failed

    @classmethod
    def from_env(
        cls,
        service_name: str,
        instance_id: str,
        max_queued_records: int = _MAX_QUEUED_RECORDS,
    ) -> "SpanExporter":
        """By OpenTelemetry's standard environment variables (OTEL_EXPORTER_OTLP_ENDPOINT, ...).

        With no endpoint named nothing is exported. Raises ValueError for a protocol that
        nobody here speaks.
        """
        otlp = _create_otlp_exporter()
        if otlp is None:
            return cls(None, Resource.get_empty())
        attributes: dict[str, str] = {
            SERVICE_INSTANCE_ID: instance_id,
            SERVICE_VERSION: metadata.version("pilothouse"),
        }
        if not os.environ.get(OTEL_SERVICE_NAME):
            attributes[SERVICE_NAME] = service_name
        return cls(otlp, Resource.create(attributes), max_queued_records)

    def export(self, record: RequestRecord) -> None:
        """Queue a record; returns at once. One whose trace is not sampled is passed over."""
        if self._otlp is None or not record.trace.is_sampled:
            return
        if self._is_closing or len(self._queue) >= self._max_queued_records:
            self._num_surplus += _num_spans(record)
            return
        self._queue.append(record)
        if len(self._queue) >= _MAX_BATCH_RECORDS:
            self._wake.set()

    async def close(self, timeout_seconds: float) -> None:
        """Send what is queued, give up what cannot be sent in time, and end the thread."""
        if self._otlp is None or self._thread is None:
            return
        self._is_closing = True
        self._wake.set()
        await asyncio.to_thread(self._thread.join, timeout_seconds)
        # Ends a retry that still waits, and with it the thread.
        await asyncio.to_thread(self._otlp.shutdown)
        await asyncio.to_thread(self._thread.join, timeout_seconds)
        while self._queue:
            self._num_surplus += _num_spans(self._queue.popleft())

    def _work(self) -> None:
        while True:
            self._wake.wait(_LINGER_SECONDS)
            self._wake.clear()
            while self._queue:
                self._send(self._take_batch())
            if self._is_closing:
                return

    def _take_batch(self) -> list[RequestRecord]:
        num_records = min(len(self._queue), _MAX_BATCH_RECORDS)
        return [self._queue.popleft() for _ in range(num_records)]

    def _send(self, records: list[RequestRecord]) -> None:
        assert self._otlp is not None
        num_spans = sum(map(_num_spans, records))
        try:
            spans = [span for record in records for span in spans_of(record, self._resource)]
            is_taken = self._otlp.export(spans) is SpanExportResult.SUCCESS
        except Exception:  # noqa: BLE001  (without the thread nothing that follows is sent)
            self._num_failed += num_spans
            self._log.exception("spans dropped: they could not be exported", num=num_spans)
            return
        if not is_taken:
            self._num_failed += num_spans
            self._log.warning("spans dropped: the backend did not take them", num=num_spans)


def _num_spans(record: RequestRecord) -> int:
    return sum(interval.name in names.SPAN_NAMES for interval in span_intervals(record))


def _create_otlp_exporter() -> OtlpExporter | None:
    """The exporter the environment asks for; its own settings it reads there by itself."""
    if os.environ.get(OTEL_SDK_DISABLED, "").strip().lower() == "true":
        return None
    if not (
        os.environ.get(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT)
        or os.environ.get(OTEL_EXPORTER_OTLP_ENDPOINT)
    ):
        return None
    protocol = (
        os.environ.get(OTEL_EXPORTER_OTLP_TRACES_PROTOCOL)
        or os.environ.get(OTEL_EXPORTER_OTLP_PROTOCOL)
        or _HTTP
    )
    # Imported only when used: gRPC costs every start memory and time.
    if protocol == _GRPC:
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc

        return Grpc()
    if protocol == _HTTP:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http

        return Http()
    raise ValueError(
        f"{OTEL_EXPORTER_OTLP_PROTOCOL}={protocol!r} is not spoken here: use {_GRPC} or {_HTTP}"
    )
