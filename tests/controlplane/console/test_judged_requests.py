"""What a request's page says of a first answer, and of a client that left."""

import time
from dataclasses import replace
from random import Random

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import judge
from dataplane.latency import Boundary, Latencies
from dataplane.lifecycle import Delivery
from dataplane.outcome import outcome_of
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, cancelled
from tests.controlplane.console.reading import page, words

_TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=(
        Objective(signal=ObjectiveSignal.FIRST_ANSWER, target=0.99, at_most_seconds=0.3),
        Objective(signal=ObjectiveSignal.ACCEPTANCE, target=0.99),
    ),
)


def _sample() -> Sample:
    return Sample(sequence=0, arrived_at_unix_ns=time.time_ns())


def _judged(record: RequestRecord, latencies: Latencies, elapsed: float) -> RequestRecord:
    outcome = outcome_of(record.disposition, record.delivery, record.status_code)
    judgement = judge(latencies, outcome, _TERMS, elapsed)
    return replace(record, latencies=latencies, judgement=judgement)


def _shown(app: FastAPI, client: TestClient, record: RequestRecord) -> str:
    batch = RecordBatch(gateway_id=record.gateway_id, num_lost=0, records=(record,))
    with app.state.request_db.session() as session:
        store_batch(session, batch, Random(1), ReservoirSizes())
    return words(page(client, f"/requests/{record.request_id}"))


@pytest.mark.parametrize(("first_answer", "is_told"), [(0.04, False), (1.5, True)])
def test_the_first_answer_has_a_column_only_where_reasoning_came_before_it(
    app: FastAPI, client: TestClient, first_answer: float, is_told: bool
) -> None:
    whole = answered(_sample())
    server = replace(whole.latencies.server, ttft=0.04, first_answer=first_answer)
    engine = replace(whole.latencies.engine, ttft=0.03, first_answer=0.03)
    latencies = replace(whole.latencies, server=server, engine=engine)
    shown = _shown(app, client, _judged(whole, latencies, elapsed=2.0))
    assert ("First answer" in shown) is is_told
    assert ("first answer 1,500 ms of 300 ms" in shown) is is_told


def test_a_client_that_left_when_it_was_due_is_told_from_a_failure(
    app: FastAPI, client: TestClient
) -> None:
    left = cancelled(_sample())
    early = tuple(each for each in left.events if each.kind in ("arrived", "received", "admitted"))
    left = replace(left, events=early, status_code=None, delivery=Delivery.NONE)
    shown = _shown(app, client, _judged(left, Latencies(), elapsed=1.0))
    assert "◆ missed the client left when it was due" in shown
    assert "the service failed it" not in shown
