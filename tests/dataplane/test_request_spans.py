"""The spans that are built from a request's record."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from dataplane import genai, names
from dataplane.decision import (
    AdmissionDecision,
    AdmissionOutcome,
    AppliedOverride,
    RoutingCandidate,
    RoutingDecision,
    Signal,
)
from dataplane.lifecycle import Disposition, Event, EventKind, Observability
from dataplane.record import RequestRecord
from dataplane.telemetry import (
    spans_of,
    start_trace,
)
from tests.dataplane.golden_request import (
    ARRIVED_AT_UNIX_NS,
    CLIENT,
    TRACE,
    golden_case,
    golden_events,
    golden_record,
)

_PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


_RESOURCE = Resource.get_empty()


def _spans(record: RequestRecord) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans_of(record, _RESOURCE)}


def _ms(span: ReadableSpan) -> list[int]:
    assert span.start_time is not None
    assert span.end_time is not None
    return [round((t - ARRIVED_AT_UNIX_NS) / 1e6) for t in (span.start_time, span.end_time)]


def _attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_the_golden_request_makes_the_six_golden_spans() -> None:
    golden = golden_case()["without_client_telemetry"]["spans_ms"]
    spans = _spans(golden_record())
    assert {name: _ms(span) for name, span in spans.items()} == golden
    assert tuple(spans) == names.SPAN_NAMES


def test_with_a_client_report_request_and_delivery_are_the_clients() -> None:
    timeline = golden_case()["timeline_ms"]
    spans = _spans(golden_record(CLIENT))
    assert {name: _ms(span) for name, span in spans.items()} == {
        name: [timeline[name]["start"], timeline[name]["end"]] for name in names.SPAN_NAMES
    }
    assert {name: _attributes(span)[names.ATTRIBUTE_BOUNDARY] for name, span in spans.items()} == {
        name: timeline[name]["boundary"] for name in names.SPAN_NAMES
    }


def test_five_children_hang_below_the_request_and_cleanup_ends_after_it() -> None:
    spans = _spans(golden_record())
    request = spans.pop(names.SPAN_REQUEST)
    assert request.kind is SpanKind.SERVER
    assert request.parent is None
    assert request.context is not None
    assert f"{request.context.span_id:016x}" == TRACE.span_id
    for span in spans.values():
        assert span.kind is SpanKind.INTERNAL
        assert span.parent is not None
        assert span.parent.span_id == request.context.span_id
        assert span.context is not None
        assert span.context.trace_id == request.context.trace_id
    cleanup = spans[names.SPAN_CLEANUP]
    assert (cleanup.end_time or 0) > (request.end_time or 0)


def test_the_callers_span_is_the_remote_parent_of_request_alone() -> None:
    trace = start_trace(_PARENT, "vendor=value")
    spans = _spans(golden_record(trace=trace))
    request = spans.pop(names.SPAN_REQUEST)
    assert request.parent is not None
    assert request.parent.is_remote
    assert f"{request.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert request.context is not None
    assert request.context.trace_state.get("vendor") == "value"
    assert {span.parent.is_remote for span in spans.values() if span.parent} == {False}


def test_the_same_record_makes_the_same_spans() -> None:
    def ids() -> list[int]:
        return [span.context.span_id for span in _spans(golden_record()).values() if span.context]

    assert ids() == ids()
    assert len(set(ids())) == len(names.SPAN_NAMES)


def test_request_carries_the_conventions_names_and_ours() -> None:
    attributes = _attributes(_spans(golden_record())[names.SPAN_REQUEST])
    assert attributes[genai.OPERATION_NAME] == "chat"
    assert attributes[genai.PROVIDER_NAME] == "paged"
    assert attributes[genai.REQUEST_MODEL] == "tiny"
    assert attributes[genai.USAGE_INPUT_TOKENS] == 12
    assert attributes[genai.USAGE_CACHE_READ_INPUT_TOKENS] == 4
    assert attributes[genai.USAGE_OUTPUT_TOKENS] == 6
    assert attributes[genai.RESPONSE_FINISH_REASONS] == ("stop",)
    assert attributes[genai.RESPONSE_TIME_TO_FIRST_CHUNK] == pytest.approx(0.044)
    assert attributes[names.ATTRIBUTE_REQUEST_ID] == "request-1"
    assert attributes[names.ATTRIBUTE_DISPOSITION] == "stop"
    assert attributes[names.ATTRIBUTE_SNAPSHOT_VERSION] == 7


def test_a_first_answer_stands_beside_the_first_token_at_each_boundary_that_knows_it() -> None:
    def told(record: RequestRecord) -> list[float | None]:
        attributes = _attributes(_spans(record)[names.SPAN_REQUEST])
        of_server = attributes.get(names.ATTRIBUTE_FIRST_ANSWER_SECONDS)
        return [of_server, attributes.get(names.ATTRIBUTE_CLIENT_FIRST_ANSWER_SECONDS)]

    golden = golden_record()
    latencies = replace(
        golden.latencies,
        server=replace(golden.latencies.server, first_answer=1.5),
        client=replace(golden.latencies.client, first_answer=1.625),
    )
    thought = replace(golden, latencies=latencies)
    assert told(thought) == [1.5, 1.625]
    assert told(replace(thought, is_stream=False)) == [None, 1.625]
    assert told(golden) == [pytest.approx(0.044), None]


def test_the_spans_of_a_request_say_what_was_decided_about_it_and_by_which_signals() -> None:
    decision = AdmissionDecision(
        outcome=AdmissionOutcome.DEGRADED,
        snapshot_version=7,
        policy_revision="chat@1",
        reason="queue age 1.3 s is over 1 s",
        signals=(
            Signal(name="queue_age", value=1.3, unit="s", limit=1.0, is_decisive=True),
            Signal(name="drain_rate", value=21.0, age_seconds=2.5),
            Signal(name="kv_free", value=None, age_seconds=99.0, is_used=False),
        ),
        degraded=("max_tokens=256",),
        overrides=(AppliedOverride(override_id="9f3a61c2", effect="limits are off"),),
    )
    routing = RoutingDecision(
        attempt=0,
        policy="two_choices",
        chosen="replica-1",
        reason="less outstanding",
        candidates=(RoutingCandidate(replica_id="replica-1", score=0.2),),
        num_candidates=1000,
    )
    spans = _spans(golden_record(decision=decision, routing=(routing,)))
    queue = _attributes(spans[names.SPAN_QUEUE])
    assert queue[names.ATTRIBUTE_ADMISSION_OUTCOME] == "degraded"
    assert queue[names.ATTRIBUTE_ADMISSION_DECISIVE] == ("queue_age",)
    assert queue[names.ATTRIBUTE_ADMISSION_OLDEST_SIGNAL_SECONDS] == 2.5
    assert queue[names.ATTRIBUTE_ADMISSION_DEGRADED] == ("max_tokens=256",)
    assert queue[names.ATTRIBUTE_OVERRIDES] == ("9f3a61c2",)
    assert names.ATTRIBUTE_ADMISSION_KIND not in queue
    prefill = _attributes(spans[names.SPAN_PREFILL])
    assert prefill[names.ATTRIBUTE_ROUTING_POLICY] == "two_choices"
    assert prefill[names.ATTRIBUTE_ROUTING_NUM_CANDIDATES] == 1000
    assert prefill[names.ATTRIBUTE_ROUTING_SCORE] == 0.2


def test_without_decisions_the_spans_say_nothing_of_any() -> None:
    for span in _spans(golden_record()).values():
        assert not [key for key in _attributes(span) if "admission" in key or "routing" in key]


def test_no_attribute_is_null_and_no_span_holds_text_of_the_request() -> None:
    record = golden_record(tenant=None, model=None, max_output_tokens=None, replica_ids=())
    for span in _spans(record).values():
        assert None not in _attributes(span).values()
        assert not [key for key in _attributes(span) if "messages" in key or "prompt." in key]


def _with(*extra: Event) -> tuple[Event, ...]:
    return tuple(sorted([*golden_events(), *extra], key=lambda event: event.at))


def test_each_event_is_shown_on_the_span_that_it_belongs_to() -> None:
    events = _with(
        Event(kind=EventKind.PREFILL_CHUNK, at=0.02, num_tokens=8, num_cached_tokens=4),
        Event(kind=EventKind.PREEMPTED, at=0.03, reason="no free block"),
        Event(kind=EventKind.RESUMED, at=0.035),
        Event(kind=EventKind.SCHEDULED, at=0.036, attempt=1, replica_id="replica-2"),
        Event(kind=EventKind.TOKENS, at=0.05, num_tokens=1),
        Event(kind=EventKind.WRITE, at=0.051, waited_seconds=0.25),
        Event(kind=EventKind.PAUSED, at=0.06, reason="client"),
        Event(kind=EventKind.PREEMPTED, at=0.07),
    )
    spans = _spans(golden_record(events=events))
    assert {name: [event.name for event in span.events] for name, span in spans.items()} == {
        "request": ["received"],
        "queue": ["admitted"],
        "prefill": ["prefill_chunk", "preempted", "resumed", "scheduled"],
        "decode": ["paused", "preempted"],
        "delivery": [],
        "cleanup": [],
    }
    chunk = spans[names.SPAN_PREFILL].events[0]
    assert chunk.timestamp == ARRIVED_AT_UNIX_NS + 20_000_000
    assert dict(chunk.attributes or {})[names.ATTRIBUTE_NUM_CACHED_TOKENS] == 4
    delivery = _attributes(spans[names.SPAN_DELIVERY])
    assert delivery[names.ATTRIBUTE_NUM_WRITES] == 2
    assert delivery[names.ATTRIBUTE_WAITED_FOR_CLIENT_SECONDS] == 0.25


def test_what_was_inferred_says_so_and_names_its_error() -> None:
    events = tuple(
        msgspec.structs.replace(event, observability=Observability.INFERRED, at_error=0.002)
        if event.kind is EventKind.FIRST_TOKEN
        else event
        for event in golden_events()
    )
    spans = _spans(golden_record(events=events))
    prefill, queue = _attributes(spans["prefill"]), _attributes(spans["queue"])
    assert prefill[names.ATTRIBUTE_OBSERVABILITY] == "inferred"
    assert prefill[names.ATTRIBUTE_END_ERROR_SECONDS] == 0.002
    assert queue[names.ATTRIBUTE_OBSERVABILITY] == "observed"
    assert names.ATTRIBUTE_END_ERROR_SECONDS not in queue


def test_a_cleanup_that_never_closed_is_exported_as_a_leak() -> None:
    cleanup = _spans(golden_record(events=golden_events()[:-1]))["cleanup"]
    assert _attributes(cleanup)[names.ATTRIBUTE_IS_LEAKED] is True
    assert _attributes(cleanup)[names.ATTRIBUTE_OBSERVABILITY] == "unobservable"


def test_a_lost_request_shows_only_that_it_arrived() -> None:
    record = golden_record(
        events=golden_events()[:1],
        disposition=Disposition.LOST,
        reason="the gateway died",
        cleanup_observability=Observability.UNOBSERVABLE,
        num_output_tokens=None,
    )
    spans = _spans(record)
    assert list(spans) == ["request", "queue"]
    assert genai.USAGE_OUTPUT_TOKENS not in _attributes(spans["request"])
    assert spans["request"].status.status_code is StatusCode.ERROR
    assert _attributes(spans["request"])[names.ATTRIBUTE_OBSERVABILITY] == "unobservable"


@pytest.mark.parametrize(
    ("disposition", "status", "is_error"),
    [
        (Disposition.STOP, 200, False),
        (Disposition.LENGTH, 200, False),
        (Disposition.CANCELLED, 200, False),
        (Disposition.INVALID, 400, False),
        (Disposition.REJECTED, 429, False),
        (Disposition.REJECTED, 503, True),
        (Disposition.SHED, 503, True),
        (Disposition.DEADLINE, 503, True),
        (Disposition.ERROR, 200, True),
        (Disposition.ERROR, 404, False),
        (Disposition.LOST, None, True),
    ],
)
def test_a_span_is_an_error_when_the_service_is_to_blame(
    disposition: Disposition, status: int | None, is_error: bool
) -> None:
    record = golden_record(disposition=disposition, status_code=status, reason="because")
    request = _spans(record)[names.SPAN_REQUEST]
    assert (request.status.status_code is StatusCode.ERROR) is is_error
    assert (genai.ERROR_TYPE in _attributes(request)) is is_error
    assert request.status.description == ("because" if is_error else None)
