"""The judgement of one request."""

import dataclasses

import pytest

from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import Verdict, judge
from dataplane.latency import Boundary, BoundaryLatencies, Latencies, derive_latencies
from dataplane.outcome import Outcome
from tests.dataplane.golden_request import CLIENT, golden_events

TTFT = Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.3)
TPOT = Objective(signal=ObjectiveSignal.TPOT, target=0.95, at_most_seconds=0.04)
E2E = Objective(signal=ObjectiveSignal.E2E, target=0.95, at_most_seconds=5.0)
ITL = Objective(signal=ObjectiveSignal.MAX_ITL, target=0.95, at_most_seconds=0.1)
GAP = Objective(signal=ObjectiveSignal.CHUNK_GAP, target=0.95, at_most_seconds=0.1)
AVAILABILITY = Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.999)
ACCEPTANCE = Objective(signal=ObjectiveSignal.ACCEPTANCE, target=0.999)
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
    verdicts, _, _ = _judge(BoundaryLatencies(ttft=ttft), Outcome.CLIENT_LEFT, (TTFT,), elapsed)
    assert verdicts == {ObjectiveSignal.TTFT: verdict}


FIRST_ANSWER = Objective(signal=ObjectiveSignal.FIRST_ANSWER, target=0.95, at_most_seconds=1.0)


@pytest.mark.parametrize(
    ("promised", "ttft", "elapsed", "verdict"),
    [
        ((TTFT, E2E), 0.1, 5.1, Verdict.NOT_APPLICABLE),
        ((TTFT, FIRST_ANSWER, E2E), 0.1, 5.1, Verdict.NOT_APPLICABLE),
        ((E2E, TTFT), 0.4, 5.1, Verdict.BAD),
        ((E2E, TTFT), 0.4, 4.9, Verdict.NOT_APPLICABLE),
        ((TTFT, E2E), None, 5.1, Verdict.BAD),
        ((FIRST_ANSWER, E2E), 0.1, 5.1, Verdict.BAD),
        ((E2E,), 0.1, 5.1, Verdict.BAD),
        ((E2E,), 0.1, 4.9, Verdict.NOT_APPLICABLE),
    ],
)
def test_a_client_that_left_spends_e2e_budget_only_if_it_was_due_and_the_first_promise_missed(
    promised: tuple[Objective, ...], ttft: float | None, elapsed: float, verdict: Verdict
) -> None:
    came = BoundaryLatencies(ttft=ttft)
    verdicts, _, _ = _judge(came, Outcome.CLIENT_LEFT, promised, elapsed)
    assert verdicts[ObjectiveSignal.E2E] is verdict


def test_a_client_that_left_after_a_first_token_in_time_keeps_what_was_promised_together() -> None:
    came = BoundaryLatencies(ttft=0.1, first_answer=1.5, max_gap=9.0)
    promised = (TTFT, FIRST_ANSWER, TPOT, GAP, E2E, AVAILABILITY)
    verdicts, in_contract, together = _judge(came, Outcome.CLIENT_LEFT, promised, elapsed=99.0)
    assert verdicts.pop(ObjectiveSignal.TTFT) is Verdict.GOOD
    assert set(verdicts.values()) == {Verdict.NOT_APPLICABLE}
    assert in_contract is True
    assert together is Verdict.GOOD


def test_what_a_client_that_left_did_not_report_opens_no_budget_of_a_later_promise() -> None:
    terms = ContractTerms(boundary=Boundary.CLIENT, objectives=(TTFT, E2E))
    sent = Latencies(server=BoundaryLatencies(ttft=0.1))
    results = judge(sent, Outcome.CLIENT_LEFT, terms, elapsed=60.0).results
    assert {result.verdict for result in results} == {Verdict.NOT_APPLICABLE}


@pytest.mark.parametrize(
    ("promised", "first_write", "verdict"),
    [
        ((TTFT, AVAILABILITY), None, Verdict.BAD),
        ((TTFT, AVAILABILITY), 0.4, Verdict.NOT_APPLICABLE),
        ((E2E, AVAILABILITY), None, Verdict.NOT_APPLICABLE),
    ],
    ids=["nothing came", "something came, late", "no first token was promised"],
)
def test_a_client_that_left_spends_availability_only_if_nothing_came_when_it_was_due(
    promised: tuple[Objective, ...], first_write: float | None, verdict: Verdict
) -> None:
    came = BoundaryLatencies(ttft=first_write)
    verdicts, _, _ = _judge(came, Outcome.CLIENT_LEFT, promised, elapsed=9.0)
    assert verdicts[ObjectiveSignal.AVAILABILITY] is verdict


@pytest.mark.parametrize(
    ("boundary", "verdict"),
    [(Boundary.SERVER, Verdict.BAD), (Boundary.ENGINE, Verdict.NOT_APPLICABLE)],
)
def test_a_client_that_waited_for_an_answer_in_one_piece_got_nothing_however_far_it_was_made(
    boundary: Boundary, verdict: Verdict
) -> None:
    terms = ContractTerms(boundary=boundary, objectives=(TTFT, AVAILABILITY, ACCEPTANCE))
    made = Latencies(engine=BoundaryLatencies(ttft=0.1))
    _, available, accepted = judge(made, Outcome.CLIENT_LEFT, terms, elapsed=60.0).results
    assert available.verdict is verdict
    assert accepted.verdict is Verdict.GOOD


def test_a_client_that_left_and_reported_nothing_is_not_called_late() -> None:
    terms = ContractTerms(boundary=Boundary.CLIENT, objectives=(TTFT,))
    sent = Latencies(server=BoundaryLatencies(ttft=0.1))
    [silent] = judge(sent, Outcome.CLIENT_LEFT, terms, elapsed=60.0).results
    [waited] = judge(Latencies(), Outcome.CLIENT_LEFT, terms, elapsed=60.0).results
    assert silent.verdict is Verdict.NOT_APPLICABLE
    assert waited.verdict is Verdict.BAD


def test_a_client_that_left_is_not_judged_on_pace() -> None:
    slow = BoundaryLatencies(ttft=0.1, tpot=9.0, max_gap=9.0)
    verdicts, in_contract, _ = _judge(slow, Outcome.CLIENT_LEFT, (TPOT, GAP))
    assert set(verdicts.values()) == {Verdict.NOT_APPLICABLE}
    assert in_contract is None


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.SERVICE_FAILED])
def test_a_failure_spends_no_budget_of_what_is_never_seen_at_its_boundary(
    outcome: Outcome,
) -> None:
    verdicts, in_contract, _ = _judge(BoundaryLatencies(), outcome, (ITL,))
    assert verdicts == {ObjectiveSignal.MAX_ITL: Verdict.NOT_APPLICABLE}
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


def test_a_client_that_tells_of_no_first_answer_may_not_tell_it_apart() -> None:
    first = Objective(signal=ObjectiveSignal.FIRST_ANSWER, target=0.95, at_most_seconds=1.0)
    whole = BoundaryLatencies(ttft=0.1, e2e=5.0)
    for boundary, verdict in (
        (Boundary.CLIENT, Verdict.NOT_APPLICABLE),
        (Boundary.ENGINE, Verdict.BAD),
    ):
        verdicts, _, _ = _judge(whole, objectives=(first,), boundary=boundary)
        assert verdicts == {ObjectiveSignal.FIRST_ANSWER: verdict}


def test_a_latency_objective_without_a_threshold_is_a_broken_contract() -> None:
    broken = Objective(signal=ObjectiveSignal.TTFT, target=0.99)
    with pytest.raises(ValueError, match="ttft has no at_most"):
        _judge(FAST, objectives=(broken,))


def test_a_contract_without_objectives_promises_nothing() -> None:
    assert _judge(FAST, objectives=()) == ({}, None, Verdict.NOT_APPLICABLE)
