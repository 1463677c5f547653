"""What is read from spans of other origins, and how sure it is."""

from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from controlplane.otlp.protobuf_form import decode_protobuf
from controlplane.otlp.reading import Ignored, read_spans
from controlplane.otlp.report import Side, SpanReport
from dataplane import names
from dataplane.lifecycle import Observability
from tests.controlplane.otlp.spans import body_of, client_span, span, vllm_span

INFERRED, OBSERVED = Observability.INFERRED, Observability.OBSERVED


def read(*spans: Span, **of_resource: str) -> list[SpanReport]:
    found = read_spans(decode_protobuf(body_of(*spans, **of_resource)))
    assert not found.ignored
    return found.reports


def times(made: Span) -> tuple[Any, ...]:
    [report] = read(made)
    assert report.client is not None
    told = report.client
    return (
        told.report.first_content,
        told.first_content,
        told.report.final_content,
        told.final_content,
    )


def test_our_events_are_observed() -> None:
    assert times(client_span(0.051, 0.1)) == (0.051, OBSERVED, 0.1, OBSERVED)


@pytest.mark.parametrize("event", ["First Token Stream Event", "llm.content.completion.chunk"])
def test_a_first_chunk_may_be_empty_and_a_spans_end_may_be_late(event: str) -> None:
    made = span(seconds=0.4, events=[(event, 0.05), (event, 0.2)], gen_ai__operation__name="chat")
    assert times(made) == (0.05, INFERRED, 0.4, INFERRED)


def test_the_conventions_time_to_first_chunk_is_inferred() -> None:
    made = span(seconds=0.4, gen_ai__response__time_to_first_chunk=0.06)
    assert times(made) == (0.06, INFERRED, 0.4, INFERRED)


def test_an_answer_in_one_piece_has_one_time() -> None:
    made = span(seconds=0.4, gen_ai__request__stream=False)
    assert times(made) == (0.4, INFERRED, 0.4, INFERRED)


def test_without_a_word_on_streaming_only_the_end_is_known() -> None:
    assert times(span(seconds=0.4, gen_ai__request__model="m"))[0] is None


@pytest.mark.parametrize("sign", [{"is_error": True}, {"error__type": "APITimeoutError"}])
def test_a_call_that_failed_has_no_final_content(sign: dict[str, Any]) -> None:
    made = span(seconds=0.4, events=[(names.EVENT_CLIENT_FIRST_CONTENT, 0.1)], **sign)
    assert times(made) == (0.1, OBSERVED, None, OBSERVED)
    assert read(made)[0].error in ("error", "APITimeoutError")


@pytest.mark.parametrize("value", [-0.1, 0.5, float("nan"), float("inf"), "0.1", True])
def test_a_figure_that_is_none_or_contradicts_its_span_is_not_taken(value: Any) -> None:
    made = span(seconds=0.4, gen_ai__response__time_to_first_chunk=value)
    found = read_spans(decode_protobuf(body_of(made)))
    if found.ignored:
        assert found.ignored == {Ignored.BAD_TIMES: 1}
        assert value in (-0.1, 0.5)
    else:
        assert found.reports[0].client is not None
        assert found.reports[0].client.report.first_content is None


def test_only_the_client_says_where_the_answer_of_a_reasoning_model_began() -> None:
    events = [(names.EVENT_CLIENT_FIRST_CONTENT, 0.1), (names.EVENT_CLIENT_FIRST_ANSWER, 0.3)]
    [told] = read(span(seconds=0.4, events=events))
    [silent] = read(client_span())
    assert told.client is not None
    assert silent.client is not None
    assert told.client.report.first_answer == pytest.approx(0.3)
    assert silent.client.report.first_answer is None


def test_an_answer_before_the_first_content_contradicts_itself() -> None:
    events = [(names.EVENT_CLIENT_FIRST_CONTENT, 0.3), (names.EVENT_CLIENT_FIRST_ANSWER, 0.1)]
    found = read_spans(decode_protobuf(body_of(span(seconds=0.4, events=events))))
    assert found.ignored == {Ignored.BAD_TIMES: 1}


def test_the_response_id_of_our_gateway_names_the_request() -> None:
    [ours] = read(client_span(gen_ai__response__id="chatcmpl-abc123"))
    assert ours.named_request_id == "abc123"
    [foreign] = read(client_span(gen_ai__response__id="resp_1"))
    assert foreign.named_request_id is None


def test_client_spans_below_are_linked() -> None:
    below = span("POST", span_id="aa" * 8, parent="00f067aa0ba902b7")
    found = read_spans(decode_protobuf(body_of(below, client_span())))
    assert found.ignored == {Ignored.FOREIGN: 1}
    assert found.reports[0].linked_span_ids == ("aa" * 8,)


def test_vllms_span_is_an_engines_with_its_figures() -> None:
    [report] = read(vllm_span(), service="vllm", scope="vllm.llm_engine")
    assert (report.side, report.source, report.client) == (Side.ENGINE, "vllm", None)
    assert report.attributes["gen_ai.latency.time_in_queue"] == 0.0009
    assert report.attributes["gen_ai.usage.completion_tokens"] == 6


def test_prompts_and_answers_are_never_kept() -> None:
    [report] = read(
        client_span(
            gen_ai__input__messages="secret", gen_ai__output__messages="secret", gen_ai__prompt="s"
        )
    )
    assert report.attributes == {}
