"""Latencies at their boundaries, and the judgement of one request."""

import dataclasses

import pytest

from dataplane.latency import (
    Boundary,
    BoundaryLatencies,
    ContractTerms,
    Latencies,
    Objective,
    ObjectiveSignal,
    Outcome,
    Verdict,
    derive_latencies,
    judge,
)
from dataplane.lifecycle import Delivery, Disposition, Event, EventKind
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
    assert server == BoundaryLatencies(ttft=1.0, max_gap=1.0)


def test_an_answer_in_one_piece_has_no_pace() -> None:
    events = _writes(1.0, 1.001, delivery=Delivery.COMPLETE, num_tokens=10)
    server = derive_latencies(events, 10).server
    assert server == BoundaryLatencies(ttft=1.0, e2e=1.001)


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


# --- judge -------------------------------------------------------------------------------

TTFT = Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.3)
TPOT = Objective(signal=ObjectiveSignal.TPOT, target=0.95, at_most_seconds=0.04)
E2E = Objective(signal=ObjectiveSignal.E2E, target=0.95, at_most_seconds=5.0)
ITL = Objective(signal=ObjectiveSignal.MAX_ITL, target=0.95, at_most_seconds=0.1)
GAP = Objective(signal=ObjectiveSignal.CHUNK_GAP, target=0.95, at_most_seconds=0.1)
AVAILABILITY = Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.999)
ALL = (TTFT, TPOT, E2E, GAP, AVAILABILITY)

FAST = BoundaryLatencies(ttft=0.3, tpot=0.04, max_gap=0.1, e2e=5.0)
"""Exactly at every threshold: at most means this is still good."""


def _judge(
    measured: BoundaryLatencies,
    outcome: Outcome = Outcome.ANSWERED,
    objectives: tuple[Objective, ...] = ALL,
    elapsed: float = 1.0,
    together: tuple[ObjectiveSignal, ...] = (),
    boundary: Boundary = Boundary.SERVER,
) -> tuple[dict[ObjectiveSignal, Verdict], bool | None, Verdict]:
    terms = ContractTerms(boundary=boundary, objectives=objectives, together=together)
    latencies = {
        Boundary.ENGINE: Latencies(engine=measured),
        Boundary.SERVER: Latencies(server=measured),
        Boundary.CLIENT: Latencies(client=measured),
    }[boundary]
    judgement = judge(latencies, outcome, terms, elapsed)
    assert judgement.boundary is boundary
    verdicts = {result.signal: result.verdict for result in judgement.results}
    return verdicts, judgement.in_contract, judgement.together


def test_an_answer_at_its_thresholds_is_in_contract() -> None:
    verdicts, in_contract, together = _judge(FAST)
    assert set(verdicts.values()) == {Verdict.GOOD}
    assert in_contract is True
    assert together is Verdict.GOOD


@pytest.mark.parametrize(
    ("slower", "signal"),
    [
        ({"ttft": 0.301}, ObjectiveSignal.TTFT),
        ({"tpot": 0.041}, ObjectiveSignal.TPOT),
        ({"e2e": 5.001}, ObjectiveSignal.E2E),
        ({"max_gap": 0.101}, ObjectiveSignal.CHUNK_GAP),
    ],
)
def test_one_missed_objective_breaks_the_contract_and_names_itself(
    slower: dict[str, float], signal: ObjectiveSignal
) -> None:
    verdicts, in_contract, together = _judge(dataclasses.replace(FAST, **slower))
    assert [s for s, verdict in verdicts.items() if verdict is Verdict.BAD] == [signal]
    assert in_contract is False
    assert together is Verdict.BAD


def test_only_the_named_signals_count_together() -> None:
    slow_end = dataclasses.replace(FAST, e2e=9.0)
    joint = (ObjectiveSignal.TTFT, ObjectiveSignal.TPOT)
    _, in_contract, together = _judge(slow_end, together=joint)
    assert in_contract is False
    assert together is Verdict.GOOD


def test_together_applies_to_nothing_when_none_of_its_signals_does() -> None:
    one_token = dataclasses.replace(FAST, tpot=None)
    _, in_contract, together = _judge(one_token, together=(ObjectiveSignal.TPOT,))
    assert in_contract is True
    assert together is Verdict.NOT_APPLICABLE


def test_an_undefined_latency_is_neither_good_nor_bad() -> None:
    verdicts, in_contract, _ = _judge(dataclasses.replace(FAST, tpot=None))
    assert verdicts[ObjectiveSignal.TPOT] is Verdict.NOT_APPLICABLE
    assert in_contract is True


def test_what_the_service_failed_is_bad_on_every_promise() -> None:
    verdicts, in_contract, together = _judge(FAST, Outcome.SERVICE_FAILED)
    assert set(verdicts.values()) == {Verdict.BAD}
    assert in_contract is False
    assert together is Verdict.BAD


def test_what_the_caller_got_wrong_is_judged_on_nothing() -> None:
    verdicts, in_contract, together = _judge(BoundaryLatencies(), Outcome.CALLER_ERROR)
    assert set(verdicts.values()) == {Verdict.NOT_APPLICABLE}
    assert in_contract is None
    assert together is Verdict.NOT_APPLICABLE


@pytest.mark.parametrize(
    ("ttft", "elapsed", "verdict"),
    [
        (None, 0.2, Verdict.NOT_APPLICABLE),
        (None, 0.31, Verdict.BAD),
        (0.2, 9.0, Verdict.GOOD),
        (0.4, 9.0, Verdict.BAD),
    ],
    ids=["left early", "waited past it", "had its first token", "had it late"],
)
def test_a_client_that_left_spends_ttft_budget_only_if_it_waited_past_the_threshold(
    ttft: float | None, elapsed: float, verdict: Verdict
) -> None:
    verdicts, _, _ = _judge(
        BoundaryLatencies(ttft=ttft), Outcome.CLIENT_LEFT, (TTFT, AVAILABILITY), elapsed
    )
    assert verdicts == {
        ObjectiveSignal.TTFT: verdict,
        ObjectiveSignal.AVAILABILITY: Verdict.NOT_APPLICABLE,
    }


@pytest.mark.parametrize(
    ("elapsed", "verdict"), [(4.9, Verdict.NOT_APPLICABLE), (5.1, Verdict.BAD)]
)
def test_a_client_that_left_after_its_whole_answer_was_due_spends_e2e_budget(
    elapsed: float, verdict: Verdict
) -> None:
    verdicts, _, _ = _judge(BoundaryLatencies(ttft=0.1), Outcome.CLIENT_LEFT, (E2E,), elapsed)
    assert verdicts[ObjectiveSignal.E2E] is verdict


def test_a_client_that_left_is_not_judged_on_pace() -> None:
    slow = BoundaryLatencies(ttft=0.1, tpot=9.0, max_gap=9.0)
    verdicts, in_contract, _ = _judge(slow, Outcome.CLIENT_LEFT, (TPOT, GAP))
    assert set(verdicts.values()) == {Verdict.NOT_APPLICABLE}
    assert in_contract is None


def test_inter_token_latency_is_judged_only_where_tokens_are_seen() -> None:
    slow = BoundaryLatencies(max_gap=9.0)
    at_server, _, _ = _judge(slow, objectives=(ITL,))
    at_engine, _, _ = _judge(slow, objectives=(ITL, GAP), boundary=Boundary.ENGINE)
    assert at_server == {ObjectiveSignal.MAX_ITL: Verdict.NOT_APPLICABLE}
    assert at_engine == {
        ObjectiveSignal.MAX_ITL: Verdict.BAD,
        ObjectiveSignal.CHUNK_GAP: Verdict.NOT_APPLICABLE,
    }


def test_at_the_client_only_what_it_reported_is_judged() -> None:
    terms = ContractTerms(boundary=Boundary.CLIENT, objectives=(TTFT, AVAILABILITY))
    silent = judge(derive_latencies(golden_events(), 6), Outcome.ANSWERED, terms, 1.0)
    assert [r.verdict for r in silent.results] == [Verdict.NOT_APPLICABLE, Verdict.GOOD]
    told = judge(derive_latencies(golden_events(), 6, CLIENT), Outcome.ANSWERED, terms, 1.0)
    assert [r.measured_seconds for r in told.results] == [0.051, None]
    assert told.in_contract is True


def test_a_latency_objective_without_a_threshold_is_a_broken_contract() -> None:
    broken = Objective(signal=ObjectiveSignal.TTFT, target=0.99)
    with pytest.raises(ValueError, match="ttft has no at_most"):
        _judge(FAST, objectives=(broken,))


def test_a_contract_without_objectives_promises_nothing() -> None:
    assert _judge(FAST, objectives=()) == ({}, None, Verdict.NOT_APPLICABLE)
