"""A client's report and its request, whichever comes first: joined once, counted exactly."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from sqlalchemy import func, select

from controlplane.otlp.report import ClientTimes, Side, SpanReport
from controlplane.store.contract_terms import FindTerms
from controlplane.store.database import Database, DatabaseKind, create_or_open_database, sqlite_url
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.request_tables import MinuteCountRow, RequestRow, SpanReportRow
from controlplane.store.requests import find_requests
from controlplane.store.span_reports import (
    MAX_WAIT_SECONDS,
    MAX_WAITING_OF_SENDER,
    TakenReports,
    find_span_reports,
    join_records,
    lock_for_records,
    take_reports,
)
from dataplane.contract_terms import ContractTerms, Objective, ObjectiveSignal
from dataplane.judgement import Verdict, judge
from dataplane.latency import Boundary, Latencies, derive_latencies
from dataplane.outcome import outcome_of
from dataplane.record import ClientReport, RequestRecord
from ops.sample_requests import Sample, answered, cancelled, failed, rejected
from tests.databases import Databases

NOW_NS = 1_790_000_040 * 10**9
TERMS = ContractTerms(
    boundary=Boundary.CLIENT,
    objectives=(
        Objective(signal=ObjectiveSignal.TTFT, target=0.99, at_most_seconds=0.1),
        Objective(signal=ObjectiveSignal.E2E, target=0.95, at_most_seconds=0.5),
        Objective(signal=ObjectiveSignal.AVAILABILITY, target=0.999),
        Objective(signal=ObjectiveSignal.FIRST_ANSWER, target=0.95, at_most_seconds=0.2),
        Objective(signal=ObjectiveSignal.ACCEPTANCE, target=0.999),
    ),
    together=(ObjectiveSignal.TTFT, ObjectiveSignal.E2E),
)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.REQUESTS)
    yield made
    made.close()


def promised(_revision: str | None, _request_class: str | None) -> ContractTerms | None:
    return TERMS


def of_server(_revision: str | None, _request_class: str | None) -> ContractTerms | None:
    return replace(TERMS, boundary=Boundary.SERVER)


def judged(record: RequestRecord, client: ClientReport | None = None) -> RequestRecord:
    """As a gateway that knew `client` from the start would have recorded it."""
    latencies = derive_latencies(record.events, record.num_output_tokens, client)
    outcome = outcome_of(record.disposition, record.delivery, record.status_code)
    elapsed = max(event.at for event in record.events if event.kind == "last_write")
    return replace(
        record,
        client=client,
        latencies=latencies,
        contract_revision="chat@1",
        judgement=judge(latencies, outcome, TERMS, elapsed),
    )


def report_on(
    record: RequestRecord, first: float | None = 0.051, final: float | None = 0.1, **fields: object
) -> SpanReport:
    """What the client says of `record`, found by the trace alone."""
    report = SpanReport(
        trace_id=record.trace.trace_id,
        span_id="00f067aa0ba902b7",
        parent_span_id=None,
        side=Side.CLIENT,
        name="chat",
        source="app",
        seconds=1.0,
        client=ClientTimes(
            report=ClientReport(first_content=first, first_answer=first, final_content=final)
        ),
    )
    return replace(report, **fields)  # type: ignore[arg-type]


def record_in(
    database: Database, *records: RequestRecord, find_terms: FindTerms = promised
) -> None:
    batch = RecordBatch(gateway_id="gateway-0-9c1f", num_lost=0, records=records)
    with database.session() as session:
        lock_for_records(session)
        store_batch(session, batch, Random(1), ReservoirSizes())
        join_records(session, records, find_terms)


def report_in(
    database: Database,
    *reports: SpanReport,
    sender: str = "",
    now_unix_ns: int = NOW_NS,
    find_terms: FindTerms = promised,
) -> TakenReports:
    with database.session() as session:
        return take_reports(session, reports, sender, find_terms, now_unix_ns)


def counts(database: Database) -> dict[str, int]:
    with database.reading() as session:
        rows = session.execute(
            select(MinuteCountRow.measure, func.sum(MinuteCountRow.value)).group_by(
                MinuteCountRow.measure
            )
        )
        return {measure: int(value) for measure, value in rows if value}


def reports_of(database: Database, record: RequestRecord) -> list[SpanReport]:
    with database.reading() as session:
        [row] = find_requests(session, record.request_id)
        return [each.report for each in find_span_reports(session, row)]


def sample(sequence: int) -> Sample:
    return Sample(sequence=sequence, arrived_at_unix_ns=NOW_NS + sequence * 10**6)


CASES = [
    (answered, 0.051, 0.1),
    (answered, 0.3, 0.4),
    (answered, 0.05, 2.0),
    (answered, None, 0.4),
    (answered, 0.05, None),
    (cancelled, 0.3, None),
    (cancelled, 0.05, None),
    (failed, 0.05, 0.2),
    (rejected, None, None),
]


@pytest.mark.parametrize(("make", "first", "final"), CASES)
@pytest.mark.parametrize("is_report_first", [False, True])
def test_counts_are_those_of_a_gateway_that_knew_the_report_from_the_start(
    tmp_path: Path,
    make: object,
    first: float | None,
    final: float | None,
    is_report_first: bool,
) -> None:
    record = make(sample(0))  # type: ignore[operator]
    client = ClientReport(first_content=first, first_answer=first, final_content=final)
    knowing = create_or_open_database(sqlite_url(tmp_path / "a.db"), DatabaseKind.REQUESTS)
    record_in(knowing, judged(record, client))
    joining = create_or_open_database(sqlite_url(tmp_path / "b.db"), DatabaseKind.REQUESTS)
    report = report_on(record, first, final)
    if is_report_first:
        report_in(joining, report)
        record_in(joining, judged(record))
    else:
        record_in(joining, judged(record))
        report_in(joining, report)
    report_in(joining, report)
    record_in(joining, judged(record))
    expected, found = counts(knowing), counts(joining)
    has_joined = found.pop("client_reports", 0)
    with knowing.reading() as one, joining.reading() as other:
        latencies = (RequestRow.ttft, RequestRow.first_answer, RequestRow.tpot, RequestRow.e2e)
        columns = (RequestRow.in_contract, *latencies)
        rows = [one.execute(select(*columns)).one(), other.execute(select(*columns)).one()]
    knowing.close()
    joining.close()
    if has_joined:
        assert found == expected
        assert rows[0] == rows[1]
    else:  # content cannot have come from a request that wrote none
        assert record.num_output_tokens == 0


def test_a_late_report_can_turn_a_request_out_of_contract(database: Database) -> None:
    record = judged(answered(sample(0)))
    record_in(database, record)
    assert counts(database)["in_contract.good"] == 1, "what needs no latency was known"
    taken = report_in(database, report_on(record, 0.3, 0.4))
    assert taken.joined == {Side.CLIENT: 1}
    after = counts(database)
    assert "in_contract.good" not in after
    assert (after["in_contract.total"], after["client_reports"]) == (1, 1)
    assert (after["objective.ttft.total"], after["objective.e2e.good"]) == (1, 1)
    assert after["objective.together.total"] == 1
    with database.reading() as session:
        [row] = find_requests(session, record.request_id)
        [stored] = find_span_reports(session, row)
    assert row.in_contract is False
    assert stored.judgement is not None
    assert stored.judgement.results[0].verdict is Verdict.BAD


def test_a_contract_at_another_boundary_is_judged_as_before(database: Database) -> None:
    record = answered(sample(0))
    record_in(database, record, find_terms=of_server)
    before = counts(database)
    report_in(database, report_on(record, 3.0, 4.0), find_terms=of_server)
    assert counts(database) == before | {"client_reports": 1}


def test_a_request_has_one_clients_report_whoever_else_claims_it(database: Database) -> None:
    record = judged(answered(sample(0)))
    record_in(database, record)
    report_in(database, report_on(record))
    before = counts(database)
    named = report_on(record, 9.0, 9.0, span_id="aa" * 8, named_request_id=record.request_id)
    assert report_in(database, named).joined == {}
    assert counts(database) == before
    assert len(reports_of(database, record)) == 1


def test_a_tenants_key_reports_on_that_tenants_requests_alone(database: Database) -> None:
    record = judged(answered(sample(0)))
    record_in(database, record)
    assert record.tenant == "acme"
    foreign = report_on(record, 9.0, 9.0, named_request_id=record.request_id)
    assert report_in(database, foreign, sender="other").joined == {}
    assert reports_of(database, record) == []
    own = report_in(database, report_on(record), sender="acme")
    assert own.joined == {Side.CLIENT: 1}, "even with the ids that another used"


def test_what_waits_too_long_is_dropped_and_counted(database: Database) -> None:
    lonely, record = answered(sample(1)), judged(answered(sample(2)))
    report_in(database, report_on(lonely))
    later = NOW_NS + int(MAX_WAIT_SECONDS * 1e9) + 1
    taken = report_in(database, report_on(record), now_unix_ns=later)
    assert (taken.num_expired, taken.num_waiting) == (1, 1)
    record_in(database, record, judged(lonely))
    assert len(reports_of(database, record)) == 1
    assert reports_of(database, lonely) == []


def test_the_oldest_make_room_and_a_sender_displaces_only_its_own(database: Database) -> None:
    numbers = itertools.count(1)
    victim = judged(answered(sample(1)))
    report_in(database, report_on(victim), sender="acme")
    num = MAX_WAITING_OF_SENDER // 2 + 5
    for moment in (1, 2):
        flood = [
            report_on(victim, trace_id=f"{next(numbers):032x}", named_request_id=None)
            for _ in range(num)
        ]
        taken = report_in(database, *flood, sender="loud", now_unix_ns=NOW_NS + moment)
    assert taken.num_displaced == 10
    assert taken.num_waiting == MAX_WAITING_OF_SENDER + 1
    record_in(database, victim)
    assert len(reports_of(database, victim)) == 1
    with database.reading() as session:
        oldest = session.scalar(
            select(func.count())
            .select_from(SpanReportRow)
            .where(SpanReportRow.received_at_unix_ns == NOW_NS + 1)
        )
    assert oldest == num - 10


def test_judging_without_latencies_leaves_only_what_needs_none() -> None:
    outcome = outcome_of(answered(sample(0)).disposition, answered(sample(0)).delivery, 200)
    judgement = judge(Latencies(), outcome, TERMS, elapsed=9.0)
    assert [each.verdict for each in judgement.results] == [
        Verdict.NOT_APPLICABLE,
        Verdict.NOT_APPLICABLE,
        Verdict.GOOD,
        Verdict.NOT_APPLICABLE,
        Verdict.GOOD,
    ]


def test_records_and_reports_that_come_at_the_same_moment_all_find_each_other(
    databases: Databases,
) -> None:
    records = [judged(answered(sample(number))) for number in range(60)]
    opened = [databases.open(DatabaseKind.REQUESTS) for _ in range(6)]
    together = threading.Barrier(len(opened))

    def work(index: int) -> None:
        mine = records[index // 2 :: 3]
        together.wait()
        for record in mine:
            if index % 2:
                report_in(opened[index], report_on(record))
            else:
                record_in(opened[index], record)

    with ThreadPoolExecutor(len(opened)) as threads:
        list(threads.map(work, range(len(opened))))
    totals = counts(opened[0])
    assert (totals["offered"], totals["client_reports"]) == (60, 60)
    assert totals["objective.ttft.good"] == totals["objective.e2e.good"] == 60
    with opened[0].reading() as session:
        waiting = select(func.count()).where(SpanReportRow.gateway_id.is_(None))
        assert session.scalar(waiting.select_from(SpanReportRow)) == 0
    for database in opened:
        database.close()
