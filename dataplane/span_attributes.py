"""The attributes of a request's spans, and which of its events are shown on which span."""

from collections.abc import Sequence

from dataplane import genai, names
from dataplane.client_waits import client_waits, seconds_of
from dataplane.decision import AdmissionDecision
from dataplane.lifecycle import Disposition, Event, EventKind, Observability
from dataplane.record import RequestRecord
from dataplane.spans import SpanInterval

Attributes = dict[str, str | bool | int | float | Sequence[str]]

_FAILURES = frozenset({Disposition.ERROR, Disposition.LOST, Disposition.DEADLINE, Disposition.SHED})
_FINISH_REASONS = frozenset({Disposition.STOP, Disposition.LENGTH})


_FIXED_SPAN = {
    EventKind.RECEIVED: names.SPAN_REQUEST,
    EventKind.INVALID: names.SPAN_REQUEST,
    EventKind.ADMITTED: names.SPAN_QUEUE,
    EventKind.REJECTED: names.SPAN_QUEUE,
}
_ON_OPEN_SPAN = frozenset(
    {EventKind.PREFILL_CHUNK, EventKind.PREEMPTED, EventKind.RESUMED, EventKind.PAUSED}
)
_ENGINE_SPAN_OPENED_BY = {
    EventKind.SCHEDULED: names.SPAN_PREFILL,
    EventKind.FIRST_TOKEN: names.SPAN_DECODE,
}


def is_failure(record: RequestRecord) -> bool:
    """The end is the service's doing; what the caller got wrong is no error of a server span."""
    status = record.status_code or 0
    if status >= 400:
        return status >= 500
    return record.disposition in _FAILURES


def events_by_span(events: Sequence[Event]) -> dict[str, list[Event]]:
    """Which events are shown on which span. Those that only open or close one are not."""
    by_span: dict[str, list[Event]] = {}
    open_span = names.SPAN_QUEUE
    for event in events:
        kind = event.kind
        if kind in _ON_OPEN_SPAN or (kind is EventKind.SCHEDULED and open_span != names.SPAN_QUEUE):
            by_span.setdefault(open_span, []).append(event)  # a further `scheduled` is a retry
        elif kind in _FIXED_SPAN:
            by_span.setdefault(_FIXED_SPAN[kind], []).append(event)
        open_span = _ENGINE_SPAN_OPENED_BY.get(kind, open_span)
    return by_span


def interval_attributes(interval: SpanInterval) -> Attributes:
    is_open = interval.end is None
    known = Observability.UNOBSERVABLE if is_open else interval.observability
    attributes: Attributes = {
        names.ATTRIBUTE_BOUNDARY: interval.boundary.value,
        names.ATTRIBUTE_OBSERVABILITY: known.value,
    }
    if interval.start_error:
        attributes[names.ATTRIBUTE_START_ERROR_SECONDS] = interval.start_error
    if interval.end_error:
        attributes[names.ATTRIBUTE_END_ERROR_SECONDS] = interval.end_error
    if is_open and interval.name == names.SPAN_CLEANUP:
        attributes[names.ATTRIBUTE_IS_LEAKED] = True
    return attributes


def attributes_of(span: str, record: RequestRecord) -> Attributes:
    match span:
        case names.SPAN_REQUEST:
            return _request_attributes(record)
        case names.SPAN_QUEUE:
            return _decision_attributes(record.decision)
        case names.SPAN_PREFILL:
            return _prefill_attributes(record)
        case names.SPAN_DECODE:
            return _known({names.ATTRIBUTE_NUM_TOKENS: record.num_output_tokens})
        case names.SPAN_DELIVERY:
            return _delivery_attributes(record)
        case names.SPAN_CLEANUP:
            reasons = [e.reason for e in record.events if e.kind is EventKind.RELEASED]
            return _known({names.ATTRIBUTE_REASON: next(iter(reasons), None)})
        case _:
            return {}


def _decision_attributes(decision: AdmissionDecision | None) -> Attributes:
    """What was decided on its admission: on the span that the decision lies in."""
    if decision is None:
        return {}
    ages = [each.age_seconds for each in decision.signals if each.is_used]
    attributes = _known(
        {
            names.ATTRIBUTE_ADMISSION_OUTCOME: decision.outcome.value,
            names.ATTRIBUTE_ADMISSION_KIND: decision.kind,
            names.ATTRIBUTE_ADMISSION_REASON: decision.reason or None,
            names.ATTRIBUTE_ADMISSION_OLDEST_SIGNAL_SECONDS: max(
                (age for age in ages if age is not None), default=None
            ),
        }
    )
    for name, words in (
        (
            names.ATTRIBUTE_ADMISSION_DECISIVE,
            [each.name for each in decision.signals if each.is_decisive],
        ),
        (names.ATTRIBUTE_ADMISSION_DEGRADED, decision.degraded),
        (names.ATTRIBUTE_OVERRIDES, [each.override_id for each in decision.overrides]),
    ):
        if words:
            attributes[name] = tuple(words)
    return attributes


def _prefill_attributes(record: RequestRecord) -> Attributes:
    """With where its last attempt was sent, and why there."""
    routing = next(reversed(record.routing), None)
    chosen = None
    if routing is not None:
        scores = {each.replica_id: each.score for each in routing.candidates}
        chosen = scores.get(routing.chosen)
    return _known(
        {
            names.ATTRIBUTE_NUM_TOKENS: record.num_prompt_tokens,
            names.ATTRIBUTE_NUM_CACHED_TOKENS: record.num_cached_tokens,
            names.ATTRIBUTE_REPLICA_ID: next(reversed(record.replica_ids), None),
            names.ATTRIBUTE_ROUTING_POLICY: None if routing is None else routing.policy,
            names.ATTRIBUTE_ROUTING_REASON: None if routing is None else routing.reason or None,
            names.ATTRIBUTE_ROUTING_NUM_CANDIDATES: (
                None if routing is None else routing.num_candidates
            ),
            names.ATTRIBUTE_ROUTING_SCORE: chosen,
        }
    )


def _request_attributes(record: RequestRecord) -> Attributes:
    is_chat = record.endpoint.endswith("/chat/completions")
    attributes = _known(
        {
            genai.OPERATION_NAME: (
                genai.OPERATION_CHAT if is_chat else genai.OPERATION_TEXT_COMPLETION
            ),
            genai.PROVIDER_NAME: record.engine,
            genai.REQUEST_MODEL: record.model,
            genai.REQUEST_MAX_TOKENS: record.max_output_tokens,
            genai.REQUEST_STREAM: record.is_stream,
            genai.USAGE_INPUT_TOKENS: record.num_prompt_tokens,
            genai.USAGE_OUTPUT_TOKENS: record.num_output_tokens,
            genai.USAGE_CACHE_READ_INPUT_TOKENS: record.num_cached_tokens,
            genai.RESPONSE_TIME_TO_FIRST_CHUNK: (
                record.latencies.server.ttft if record.is_stream else None
            ),
            names.ATTRIBUTE_FIRST_ANSWER_SECONDS: (
                record.latencies.server.first_answer if record.is_stream else None
            ),
            genai.URL_PATH: record.endpoint,
            genai.HTTP_RESPONSE_STATUS_CODE: record.status_code,
            names.ATTRIBUTE_REQUEST_ID: record.request_id,
            names.ATTRIBUTE_GATEWAY_ID: record.gateway_id,
            names.ATTRIBUTE_TENANT: record.tenant,
            names.ATTRIBUTE_REQUEST_CLASS: record.request_class,
            names.ATTRIBUTE_DEPLOYMENT: record.deployment,
            names.ATTRIBUTE_MODEL_REVISION: record.model_revision,
            names.ATTRIBUTE_ENGINE_CONFIG_REVISION: record.engine_config_revision,
            names.ATTRIBUTE_CONTRACT_REVISION: record.contract_revision,
            names.ATTRIBUTE_POLICY_REVISION: record.policy_revision,
            names.ATTRIBUTE_SNAPSHOT_VERSION: record.snapshot_version,
            names.ATTRIBUTE_DISPOSITION: record.disposition.value,
            names.ATTRIBUTE_REASON: record.reason,
            names.ATTRIBUTE_DELIVERY: record.delivery.value,
            names.ATTRIBUTE_REPLICA_ID: next(reversed(record.replica_ids), None),
            names.ATTRIBUTE_NUM_ATTEMPTS: len(record.replica_ids),
            names.ATTRIBUTE_CLEANUP_OBSERVABILITY: record.cleanup_observability.value,
            names.ATTRIBUTE_PROMPT_TOKENS_OBSERVABILITY: record.prompt_tokens_observability.value,
            names.ATTRIBUTE_OUTPUT_TOKENS_OBSERVABILITY: record.output_tokens_observability.value,
            names.ATTRIBUTE_IN_CONTRACT: (
                record.judgement.in_contract if record.judgement is not None else None
            ),
            names.ATTRIBUTE_CLIENT_TTFT_SECONDS: record.latencies.client.ttft,
            names.ATTRIBUTE_CLIENT_FIRST_ANSWER_SECONDS: record.latencies.client.first_answer,
            names.ATTRIBUTE_CLIENT_E2E_SECONDS: record.latencies.client.e2e,
        }
    )
    if record.disposition in _FINISH_REASONS:
        attributes[genai.RESPONSE_FINISH_REASONS] = (record.disposition.value,)
    if is_failure(record):
        attributes[genai.ERROR_TYPE] = record.disposition.value
    return attributes


def _delivery_attributes(record: RequestRecord) -> Attributes:
    writes = [e for e in record.events if e.kind in (EventKind.FIRST_WRITE, EventKind.WRITE)]
    return {
        names.ATTRIBUTE_NUM_WRITES: len(writes),
        names.ATTRIBUTE_WAITED_FOR_CLIENT_SECONDS: seconds_of(client_waits(record.events)),
        names.ATTRIBUTE_DELIVERY: record.delivery.value,
    }


def event_attributes(event: Event) -> Attributes:
    return _known(
        {
            names.ATTRIBUTE_OBSERVABILITY: event.observability.value,
            names.ATTRIBUTE_ATTEMPT: event.attempt,
            names.ATTRIBUTE_SEQUENCE: event.sequence,
            names.ATTRIBUTE_NUM_TOKENS: event.num_tokens,
            names.ATTRIBUTE_NUM_CACHED_TOKENS: event.num_cached_tokens,
            names.ATTRIBUTE_REPLICA_ID: event.replica_id,
            names.ATTRIBUTE_REASON: event.reason,
        }
    )


def _known(attributes: dict[str, str | bool | int | float | None]) -> Attributes:
    """Without the unknown ones: OpenTelemetry has no null."""
    return {key: value for key, value in attributes.items() if value is not None}
