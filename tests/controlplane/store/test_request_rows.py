"""In which minute a request is counted: when it arrived, or when it ended and was judged."""

from dataclasses import replace

import pytest

from controlplane.store.request_rows import count_measures, judged_minute_of
from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import judge
from dataplane.latency import Boundary
from dataplane.lifecycle import Event, EventKind
from dataplane.outcome import outcome_of
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, lost

MINUTE = 60
START = 1_790_000_040
TERMS = ContractTerms(
    boundary=Boundary.SERVER,
    objectives=(Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.99),),
    together=(),
)


def _judged(record: RequestRecord) -> RequestRecord:
    outcome = outcome_of(record.disposition, record.delivery, record.status_code)
    return replace(record, judgement=judge(record.latencies, outcome, TERMS, elapsed=0.0))


def _ending_after(record: RequestRecord, seconds: float) -> RequestRecord:
    kept = [each for each in record.events if each.kind is not EventKind.LAST_WRITE]
    return replace(record, events=(*kept, Event(kind=EventKind.LAST_WRITE, at=seconds)))


def _minutes(record: RequestRecord) -> dict[str, int]:
    return {key.measure: key.minute_unix - START for key in count_measures(record)}


def test_a_long_answer_is_offered_when_it_arrives_and_judged_when_it_ends() -> None:
    record = _ending_after(
        answered(Sample(sequence=1, arrived_at_unix_ns=(START + 50) * 10**9)), 200.0
    )
    minutes = _minutes(_judged(record))
    assert minutes["offered"] == 0
    assert minutes["in_contract.total"] == 0
    assert minutes["objective.availability.total"] == 4 * MINUTE
    assert minutes["objective.availability.good"] == 4 * MINUTE


def test_who_was_lost_with_its_gateway_counts_when_it_arrived() -> None:
    minutes = _minutes(_judged(lost(Sample(sequence=1, arrived_at_unix_ns=(START + 59) * 10**9))))
    assert minutes["objective.availability.total"] == 0


@pytest.mark.parametrize("after", [1e300, -1e300, 1e9, -0.001])
def test_an_end_that_cannot_be_is_none(after: float) -> None:
    assert judged_minute_of(START * 10**9, after, None) == START


def test_without_a_last_write_the_end_of_the_work_is_the_end() -> None:
    assert judged_minute_of(START * 10**9, None, 61.0) == START + MINUTE
