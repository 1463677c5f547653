"""Latencies at their boundaries."""

import dataclasses

import pytest

from dataplane.latency import Boundary, BoundaryLatencies, Latencies, derive_latencies
from dataplane.lifecycle import AnswerPart, Delivery, Disposition, Event, EventKind
from dataplane.record import ClientReport
from tests.dataplane.golden_request import CLIENT, NUM_OUTPUT_TOKENS, golden_case, golden_events


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 6)


def test_the_golden_request_has_the_golden_latencies() -> None:
    golden = golden_case()["derived_ms"]
    latencies = derive_latencies(golden_events(), NUM_OUTPUT_TOKENS, CLIENT)
    assert {
        "queue_time": _ms(latencies.queue_time),
        "engine_ttft": _ms(latencies.engine.ttft),
        "client_ttft": _ms(latencies.client.ttft),
        "request_latency": _ms(latencies.client.e2e),
        "deferred_cleanup": _ms(latencies.deferred_cleanup),
    } == golden
    transit = golden_case()["timeline_ms"]["first_content_transit"]
    assert _ms(latencies.first_content_transit) == transit["end"] - transit["start"]


def test_the_golden_request_without_a_client_report_has_the_golden_latencies() -> None:
    golden = golden_case()["without_client_telemetry"]["derived_ms"]
    latencies = derive_latencies(golden_events(), NUM_OUTPUT_TOKENS)
    assert {
        "queue_time": _ms(latencies.queue_time),
        "engine_ttft": _ms(latencies.engine.ttft),
        "server_ttft": _ms(latencies.server.ttft),
        "server_e2e": _ms(latencies.server.e2e),
        "deferred_cleanup": _ms(latencies.deferred_cleanup),
    } == golden
    assert latencies.client == BoundaryLatencies()
    assert latencies.first_content_transit is None


def test_tpot_is_the_time_after_the_first_token_per_token_after_it() -> None:
    latencies = derive_latencies(golden_events(), 6, CLIENT)
    assert _ms(latencies.server.tpot) == pytest.approx((97 - 44) / 5)
    assert _ms(latencies.client.tpot) == pytest.approx((100 - 51) / 5)


def test_one_token_has_no_tpot_at_any_boundary() -> None:
    latencies = derive_latencies(golden_events(), 1, CLIENT)
    assert {latencies.at(boundary).tpot for boundary in Boundary} == {None}


def test_no_clock_error_no_interval_between_two_clocks() -> None:
    client = dataclasses.replace(CLIENT, clock_error=None)
    latencies = derive_latencies(golden_events(), 6, client)
    assert latencies.first_content_transit is None
    assert _ms(latencies.client.ttft) == 51, "what counts from the client's own send stands"


def _tokens(*at: float, sequence: int = 0) -> list[Event]:
    first, *others = at
    return [
        Event(kind=EventKind.FIRST_TOKEN, at=first, sequence=sequence, num_tokens=1),
        *(Event(kind=EventKind.TOKENS, at=t, sequence=sequence, num_tokens=1) for t in others),
    ]


def test_the_longest_gap_at_the_engine_lies_between_two_tokens_of_one_sequence() -> None:
    events = sorted(
        [*_tokens(1.0, 2.0, 3.5), *_tokens(1.2, 2.9, 3.0, sequence=1)], key=lambda event: event.at
    )
    engine = derive_latencies(events, 6).engine
    assert engine.max_gap == pytest.approx(1.7)
    assert engine.tpot == pytest.approx(1.25), "the slower sequence counts"
    assert engine.ttft == 1.0
    assert engine.e2e == 3.5


def test_the_pace_at_the_server_is_of_the_longest_of_several_sequences() -> None:
    events = sorted(
        [
            *_tokens(1.0, 2.0, 3.0),
            *_tokens(1.0, 2.0, sequence=1),
            Event(kind=EventKind.FIRST_WRITE, at=1.1, num_tokens=2),
            Event(kind=EventKind.WRITE, at=3.1, num_tokens=3),
            Event(kind=EventKind.LAST_WRITE, at=3.1, delivery=Delivery.COMPLETE),
        ],
        key=lambda event: event.at,
    )
    server = derive_latencies(events, num_output_tokens=5).server
    assert server.ttft == 1.1
    assert server.tpot == pytest.approx(1.0), "two seconds for two further tokens, not for four"


def test_several_sequences_have_no_tpot_where_nobody_says_how_many_tokens_came() -> None:
    events = [
        *_tokens(1.0),
        Event(kind=EventKind.TOKENS, at=2.0),
        *_tokens(1.0, sequence=1),
        Event(kind=EventKind.TOKENS, at=2.0, sequence=1),
    ]
    assert derive_latencies(events, 4).engine.tpot is None


def _writes(*at: float, delivery: Delivery, num_tokens: int | None = None) -> list[Event]:
    first, *others, last = at
    return [
        Event(kind=EventKind.FIRST_WRITE, at=first, num_tokens=num_tokens),
        *(Event(kind=EventKind.WRITE, at=t) for t in others),
        Event(kind=EventKind.LAST_WRITE, at=last, delivery=delivery),
    ]


def test_an_answer_that_was_not_delivered_whole_has_no_end_at_the_server() -> None:
    events = _writes(1.0, 2.0, 5.0, delivery=Delivery.PARTIAL)
    server = derive_latencies(events, 10).server
    assert server == BoundaryLatencies(ttft=1.0, first_answer=1.0, max_gap=1.0)


def test_an_answer_in_one_piece_has_no_pace() -> None:
    events = _writes(1.0, 1.001, delivery=Delivery.COMPLETE, num_tokens=10)
    server = derive_latencies(events, 10).server
    assert server == BoundaryLatencies(ttft=1.0, first_answer=1.0, e2e=1.001)


def _thinking(begins: AnswerPart | None, answer_at: float | None) -> list[Event]:
    """A first token and a first write at 1 s and 1.1 s, and more of both until 4 s."""
    events = [
        Event(kind=EventKind.FIRST_TOKEN, at=1.0, num_tokens=1, begins=begins),
        Event(kind=EventKind.FIRST_WRITE, at=1.1, num_tokens=1, begins=begins),
    ]
    for at in (2.0, 3.0, 4.0):
        part = AnswerPart.ANSWER if at == answer_at else None
        events.append(Event(kind=EventKind.TOKENS, at=at, num_tokens=1, begins=part))
        events.append(Event(kind=EventKind.WRITE, at=at + 0.1, num_tokens=1, begins=part))
    return events


@pytest.mark.parametrize(
    ("begins", "answer_at", "engine", "server"),
    [
        (None, None, 1.0, 1.1),
        (AnswerPart.REASONING, 3.0, 3.0, 3.1),
        (AnswerPart.REASONING, None, None, None),
    ],
    ids=["nothing is set apart", "reasoning comes first", "all of it is reasoning"],
)
def test_the_first_answer_is_the_first_token_that_is_no_reasoning(
    begins: AnswerPart | None, answer_at: float | None, engine: float | None, server: float | None
) -> None:
    latencies = derive_latencies(_thinking(begins, answer_at), 4)
    assert (latencies.engine.ttft, latencies.server.ttft) == (1.0, 1.1)
    assert (latencies.engine.first_answer, latencies.server.first_answer) == (engine, server)


def test_of_several_answers_the_first_to_begin_counts() -> None:
    slow = [
        Event(kind=EventKind.FIRST_TOKEN, at=0.5, sequence=0, begins=AnswerPart.REASONING),
        Event(kind=EventKind.TOKENS, at=5.0, sequence=0, begins=AnswerPart.ANSWER),
    ]
    assert derive_latencies([*slow, *_tokens(2.0, sequence=1)], None).engine.first_answer == 2.0


def test_an_error_answer_has_no_latencies_at_the_server() -> None:
    events = [Event(kind=EventKind.LAST_WRITE, at=0.2, delivery=Delivery.NONE)]
    assert derive_latencies(events, 0).server == BoundaryLatencies()


def test_cleanup_is_deferred_from_the_end_of_the_last_sequence() -> None:
    events = [
        Event(kind=EventKind.FINISHED, at=1.0, sequence=0, disposition=Disposition.STOP),
        Event(kind=EventKind.FINISHED, at=2.0, sequence=1, disposition=Disposition.STOP),
        Event(kind=EventKind.RELEASED, at=2.5),
    ]
    assert derive_latencies(events, 2).deferred_cleanup == 0.5


def test_no_event_no_latency() -> None:
    assert derive_latencies([], 0, ClientReport()) == Latencies()
