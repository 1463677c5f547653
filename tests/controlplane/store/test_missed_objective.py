"""Requests are found by the objective that they missed, as far as their rows tell."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from sqlalchemy import select

from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.missed_objective import Limit, MissedObjective, missed_conditions
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.request_tables import RequestRow
from dataplane.contract_terms import WITHOUT_BOUND, ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import judge
from dataplane.latency import Boundary, BoundaryLatencies, Latencies
from dataplane.lifecycle import Delivery, Disposition, EventKind
from dataplane.outcome import outcome_of
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, cancelled, rejected
from tests.databases import Databases

_LIMIT = 1.0
_TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=tuple(
        Objective(
            signal=signal,
            target=0.99,
            at_most_seconds=None if signal in WITHOUT_BOUND else _LIMIT,
        )
        for signal in ObjectiveSignal
    ),
)
_GOOD = BoundaryLatencies(ttft=0.1, first_answer=0.2, tpot=0.01, max_gap=0.1, e2e=0.9)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.REQUESTS)
    yield made
    made.close()


def _sample(number: int) -> Sample:
    return Sample(sequence=number, arrived_at_unix_ns=1_790_000_040 * 10**9 + number)


def _judged(record: RequestRecord, seen: BoundaryLatencies, elapsed: float = 0.5) -> RequestRecord:
    outcome = outcome_of(record.disposition, record.delivery, record.status_code)
    latencies = Latencies(server=seen)
    return replace(
        record,
        latencies=latencies,
        contract_revision="chat@1",
        request_class="interactive",
        judgement=judge(latencies, outcome, _TERMS, elapsed),
    )


def _left_in_answer(queue_seconds: float, num_output_tokens: int) -> RequestRecord:
    """After all of it was due."""
    sample = replace(_sample(2), queue_seconds=queue_seconds, num_output_tokens=num_output_tokens)
    record = cancelled(sample)
    [left_at] = [each.at for each in record.events if each.kind is EventKind.LAST_WRITE]
    assert left_at > _LIMIT
    return _judged(
        record, BoundaryLatencies(ttft=queue_seconds, first_answer=queue_seconds), left_at
    )


def _all() -> dict[str, RequestRecord]:
    whole, refused = answered(_sample(0)), rejected(_sample(1))
    failed = replace(
        whole, disposition=Disposition.ERROR, delivery=Delivery.NONE, status_code=502, reason="gone"
    )
    left = cancelled(_sample(2))
    early = tuple(e for e in left.events if e.kind in ("arrived", "received", "admitted"))
    left = replace(left, events=early, status_code=None, delivery=Delivery.NONE)
    nothing = BoundaryLatencies()
    made = {
        "kept": _judged(whole, _GOOD),
        "thought": _judged(whole, replace(_GOOD, first_answer=1.5)),
        "thought alone": _judged(whole, replace(_GOOD, first_answer=None, e2e=1.5)),
        "stalled": _judged(whole, replace(_GOOD, max_gap=1.5)),
        "refused": _judged(replace(refused, status_code=503), nothing),
        "limited": _judged(replace(refused, status_code=429), nothing),
        "failed": _judged(failed, nothing),
        "left early": _judged(left, nothing, elapsed=0.5),
        "left late": _judged(left, nothing, elapsed=1.5),
        "left in a late answer": _left_in_answer(queue_seconds=1.2, num_output_tokens=30),
        "left in an answer": _left_in_answer(queue_seconds=0.1, num_output_tokens=3000),
    }
    return {
        name: replace(record, gateway_sequence=number, request_id=name)
        for number, (name, record) in enumerate(made.items())
    }


@pytest.mark.parametrize(
    ("signal", "found"),
    [
        (ObjectiveSignal.TTFT, {"left late", "left in a late answer"}),
        (
            ObjectiveSignal.FIRST_ANSWER,
            {"thought", "thought alone", "left late", "left in a late answer"},
        ),
        (ObjectiveSignal.E2E, {"thought alone", "left in a late answer"}),
        (ObjectiveSignal.CHUNK_GAP, {"stalled"}),
        (ObjectiveSignal.ACCEPTANCE, {"refused"}),
        (ObjectiveSignal.AVAILABILITY, {"refused", "failed", "left late"}),
    ],
)
def test_those_that_missed_an_objective_are_found_and_no_others(
    database: Database, signal: ObjectiveSignal, found: set[str]
) -> None:
    records = tuple(_all().values())
    limit = Limit(contract_revision="chat@1", request_class="interactive", at_most_seconds=_LIMIT)
    missed = MissedObjective(signal=signal, limits=() if signal in WITHOUT_BOUND else (limit,))
    gateway_id = records[0].gateway_id
    with database.session() as session:
        batch = RecordBatch(gateway_id=gateway_id, num_lost=0, records=records)
        store_batch(session, batch, Random(1), ReservoirSizes())
    with database.reading() as session:
        rows = session.scalars(select(RequestRow.request_id).where(*missed_conditions(missed)))
        assert set(rows) == found
