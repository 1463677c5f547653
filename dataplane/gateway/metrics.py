"""What a gateway shows to Prometheus. Counted from finished records, and from one snapshot.

Everything about ended requests comes from `observe(record)`, the same record that spans and
rows are made of. The gauges of requests in flight come from a single call at scrape time, so
that invariant 5 holds within every scrape. No series carries a tenant.

A latency is shown at the server's boundary, and at that of its contract where it is another one:
of a class each boundary is a hundred series. Records and spans have all of them.

Each bucket of a latency remembers the trace of the last request that fell into it. A scraper that
asks for OpenMetrics is told it as an exemplar, others see nothing of it.
"""

from collections.abc import Callable

from prometheus_client import Counter, Histogram, ProcessCollector
from prometheus_client.exposition import choose_encoder

from dataplane import names
from dataplane.backlog import is_for_client, is_too_slow
from dataplane.decision import AdmissionDecision, AdmissionOutcome
from dataplane.gateway.judged_metrics import JudgedMetrics
from dataplane.gateway.report_metrics import ReportCollector
from dataplane.latency import Boundary
from dataplane.lifecycle import Disposition, EventKind, Observability
from dataplane.metering import Metered
from dataplane.metrics_registry import MetricsRegistry
from dataplane.policy import Snapshot
from dataplane.record import RequestRecord
from dataplane.report import GatewayReport

_SCOPE = (names.LABEL_DEPLOYMENT, names.LABEL_REQUEST_CLASS)
_AT_BOUNDARY = (*_SCOPE, names.LABEL_BOUNDARY)

_PAUSE_KINDS = {Observability.OBSERVED: "paused", Observability.INFERRED: "held_up"}
# Seconds. Dense where contracts usually draw their line, so that a quantile near it is sharp; no
# more of them, since each class of each deployment has them all (ops/bench/bench_cardinality.py).
_TTFT_BUCKETS = (
    *(0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75),
    *(1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0),
)
_TPOT_BUCKETS = (
    *(0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05),
    *(0.075, 0.1, 0.2, 0.4, 1.0, 2.5),
)
_E2E_BUCKETS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_GAP_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0)
_QUEUE_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class GatewayMetrics:
    """Metrics of one gateway process, in a registry of its own.

    `read_report` is called once per scrape and not before the first; it is what the gateway
    tells the control plane too, so that the two cannot disagree. `num_spans_dropped` says how
    many spans were not exported since the start, `read_snapshot` what is enforced now.
    """

    def __init__(
        self,
        read_report: Callable[[], GatewayReport],
        num_spans_dropped: Callable[[], int],
        read_snapshot: Callable[[], Snapshot],
    ) -> None:
        self.registry = MetricsRegistry()
        # When this process started tells a counter that began anew from one first seen now.
        ProcessCollector(registry=self.registry)
        self.registry.register(ReportCollector(read_report, num_spans_dropped))
        self._ended = self._counter(
            names.GATEWAY_ENDED_TOTAL,
            "Requests that ended, by disposition.",
            (*_SCOPE, names.LABEL_DISPOSITION),
        )
        self._rejected = self._counter(
            names.GATEWAY_REJECTED_TOTAL,
            "Requests that a policy refused on arrival, by the code of the error.",
            (*_SCOPE, names.LABEL_REASON),
        )
        self._degraded = self._counter(
            names.GATEWAY_DEGRADED_TOTAL,
            "Requests admitted with less than they asked for, or by a fallback.",
            _SCOPE,
        )
        self._shadow = self._counter(
            names.GATEWAY_SHADOW_TOTAL,
            "Requests that a policy looked on at, by what was enforced and what it came to.",
            (names.LABEL_DEPLOYMENT, names.LABEL_ENFORCED, names.LABEL_SHADOW),
        )
        self._slow_clients = self._counter(
            names.GATEWAY_SLOW_CLIENTS_TOTAL,
            "Requests whose client read too slowly: their engine paused, was held up without "
            "saying so, or they were ended.",
            (*_SCOPE, names.LABEL_KIND),
        )
        self._input = self._counter(
            names.GATEWAY_INPUT_TOKENS_TOTAL, "Prompt tokens of requests whose work began.", _SCOPE
        )
        self._cached = self._counter(
            names.GATEWAY_CACHED_INPUT_TOKENS_TOTAL, "Prompt tokens reused, not computed.", _SCOPE
        )
        self._output = self._counter(names.GATEWAY_OUTPUT_TOKENS_TOTAL, "Tokens selected.", _SCOPE)
        self._engine_seconds = self._counter(
            names.GATEWAY_ENGINE_SECONDS_TOTAL,
            "Replicas' time that requests took: their parts of the steps they were in.",
            (*_SCOPE, names.LABEL_OBSERVABILITY),
        )
        self._kv_block_seconds = self._counter(
            names.GATEWAY_KV_BLOCK_SECONDS_TOTAL,
            "KV blocks that requests held, times how long.",
            _SCOPE,
        )
        self._queue = self._histogram(
            names.GATEWAY_QUEUE_TIME_SECONDS,
            "Arrival until engine work begins.",
            _SCOPE,
            _QUEUE_BUCKETS,
        )
        self._ttft = self._histogram(
            names.GATEWAY_TTFT_SECONDS,
            "Arrival until the first token passes the boundary.",
            _AT_BOUNDARY,
            _TTFT_BUCKETS,
        )
        self._tpot = self._histogram(
            names.GATEWAY_TPOT_SECONDS,
            "Seconds per output token after the first, at the boundary.",
            _AT_BOUNDARY,
            _TPOT_BUCKETS,
        )
        self._e2e = self._histogram(
            names.GATEWAY_E2E_SECONDS,
            "Arrival until the last token passes the boundary.",
            _AT_BOUNDARY,
            _E2E_BUCKETS,
        )
        self._gap = self._histogram(
            names.GATEWAY_LONGEST_GAP_SECONDS,
            "The longest time of an answer in which its engine sent nothing of it.",
            _SCOPE,
            _GAP_BUCKETS,
        )
        self._judged = JudgedMetrics(self.registry, read_snapshot)

    def observe(self, record: RequestRecord) -> None:
        """Count one ended request."""
        scope = (
            record.deployment or names.NO_LABEL_VALUE,
            record.request_class or names.NO_LABEL_VALUE,
        )
        self._ended.labels(*scope, record.disposition.value).inc()
        self._observe_decision(record.decision, scope)
        self._observe_shadow(record)
        self._observe_slow_client(record, scope)
        self._input.labels(*scope).inc(record.num_input_tokens)
        self._cached.labels(*scope).inc(record.num_cached_tokens or 0)
        self._output.labels(*scope).inc(record.num_output_tokens or 0)
        self._observe_metered(record.metered, scope)
        exemplar = {names.LABEL_TRACE_ID: record.trace.trace_id}
        if record.latencies.queue_time is not None:
            self._queue.labels(*scope).observe(record.latencies.queue_time, exemplar)
        if (gap := record.latencies.at(Boundary.ENGINE).max_gap) is not None:
            self._gap.labels(*scope).observe(gap, exemplar)
        for boundary in _boundaries(record):
            self._observe_boundary(record, scope, boundary, exemplar)
        self._judged.observe(record.judgement, scope)

    def render(self, accept: str | None = None) -> tuple[bytes, str]:
        """The body and content type for a scrape with this Accept header."""
        self._judged.begin_at_zero()
        encoder, content_type = choose_encoder(accept or "")
        return encoder(self.registry), content_type

    def _observe_decision(self, decision: AdmissionDecision | None, scope: tuple[str, str]) -> None:
        if decision is None:
            return
        if decision.kind is not None:
            self._rejected.labels(*scope, decision.kind).inc()
        elif decision.outcome is AdmissionOutcome.DEGRADED:
            self._degraded.labels(*scope).inc()

    def _observe_shadow(self, record: RequestRecord) -> None:
        shadow, enforced = record.shadow, record.decision
        if shadow is None or enforced is None:
            return
        outcome = "unknown" if shadow.decision is None else shadow.decision.outcome
        self._shadow.labels(record.deployment or "", enforced.outcome, outcome).inc()

    def _observe_slow_client(self, record: RequestRecord, scope: tuple[str, str]) -> None:
        pauses = [
            e for e in record.events if e.kind is EventKind.PAUSED and is_for_client(e.reason)
        ]
        for observability, kind in _PAUSE_KINDS.items():
            if any(pause.observability is observability for pause in pauses):
                self._slow_clients.labels(*scope, kind).inc()
        if record.disposition is Disposition.CANCELLED and is_too_slow(record.reason):
            self._slow_clients.labels(*scope, "ended").inc()

    def _observe_metered(self, metered: Metered | None, scope: tuple[str, str]) -> None:
        if metered is None:
            return
        word = metered.engine_observability.value
        self._engine_seconds.labels(*scope, word).inc(metered.engine_seconds)
        if metered.kv_block_seconds is not None:
            self._kv_block_seconds.labels(*scope).inc(metered.kv_block_seconds)

    def _observe_boundary(
        self,
        record: RequestRecord,
        scope: tuple[str, str],
        boundary: Boundary,
        exemplar: dict[str, str],
    ) -> None:
        at_boundary = record.latencies.at(boundary)
        for histogram, seconds in (
            (self._ttft, at_boundary.ttft),
            (self._tpot, at_boundary.tpot),
            (self._e2e, at_boundary.e2e),
        ):
            if seconds is not None:
                histogram.labels(*scope, boundary.value).observe(seconds, exemplar)

    def _counter(self, name: str, what: str, labels: tuple[str, ...]) -> Counter:
        return Counter(name, what, labels, registry=self.registry)

    def _histogram(
        self, name: str, what: str, labels: tuple[str, ...], buckets: tuple[float, ...]
    ) -> Histogram:
        return Histogram(name, what, labels, buckets=buckets, registry=self.registry)


def _boundaries(record: RequestRecord) -> set[Boundary]:
    judged = () if record.judgement is None else (record.judgement.boundary,)
    return {Boundary.SERVER, *judged}
