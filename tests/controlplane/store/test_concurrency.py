"""Several control planes and gateways at once, on one database."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import TypeVar

from sqlalchemy import func, select

from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.records import IngestReport, RecordBatch, ReservoirSizes, store_batch
from controlplane.store.request_tables import (
    FullRecordRow,
    MinuteCountRow,
    RequestRow,
    ReservoirRow,
)
from controlplane.store.revisions import Change, apply_documents
from controlplane.store.tables import RevisionRow
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, failed
from tests.controlplane.config_documents import SERVICE, documents
from tests.databases import Databases

START_NS = 1_790_000_000 * 10**9
Result = TypeVar("Result")


def at_once(number: int, work: Callable[[int], Result]) -> list[Result]:
    """`work` in so many threads that begin together."""
    together = threading.Barrier(number)

    def run(index: int) -> Result:
        together.wait()
        return work(index)

    with ThreadPoolExecutor(number) as threads:
        return list(threads.map(run, range(number)))


def take(database: Database, records: list[RequestRecord], seed: int = 1) -> IngestReport:
    batch = RecordBatch(gateway_id="g", num_lost=len(records), records=tuple(records))
    with database.session() as session:
        return store_batch(session, batch, Random(seed), ReservoirSizes(error=10, sample=5))


def answers(first: int, number: int, gateway_id: str = "g") -> list[RequestRecord]:
    return [
        answered(Sample(sequence=n, arrived_at_unix_ns=START_NS, gateway_id=gateway_id))
        for n in range(first, first + number)
    ]


def total(database: Database, measure: str) -> int:
    with database.reading() as session:
        query = select(func.sum(MinuteCountRow.value)).where(MinuteCountRow.measure == measure)
        return int(session.scalar(query) or 0)


def test_the_same_documents_applied_at_once_become_one_revision(databases: Databases) -> None:
    opened = [databases.open(DatabaseKind.CONFIG) for _ in range(4)]

    def apply(index: int) -> set[Change]:
        with opened[index].session() as session:
            applied = apply_documents(session, documents(*SERVICE), author="ann", reason="")
        return {each.change for each in applied}

    outcomes = at_once(4, apply)

    with opened[0].reading() as session:
        assert set(session.scalars(select(RevisionRow.number))) == {1}
    assert sorted(outcomes, key=str) == [{Change.CREATED}, *[{Change.UNCHANGED}] * 3]
    for database in opened:
        database.close()


def test_a_batch_that_is_sent_twice_at_once_is_counted_once(databases: Databases) -> None:
    opened = [databases.open(DatabaseKind.REQUESTS) for _ in range(4)]

    reports = at_once(4, lambda index: take(opened[index], answers(0, 50)))

    assert sum(report.stored for report in reports) == 50
    assert sum(report.duplicates for report in reports) == 150
    assert total(opened[0], "offered") == 50
    for database in opened:
        database.close()


def test_batches_that_share_requests_in_another_order_do_not_block_each_other(
    databases: Databases,
) -> None:
    opened = [databases.open(DatabaseKind.REQUESTS) for _ in range(4)]

    def send(index: int) -> None:
        records = answers(0, 40, "a") + answers(0, 40, "b")
        for start in range(0, 80, 20):
            part = records[start : start + 20]
            take(opened[index], part if index % 2 else part[::-1])

    at_once(4, send)

    assert total(opened[0], "offered") == 80
    for database in opened:
        database.close()


def test_batches_at_once_neither_overfill_a_reservoir_nor_forget_an_offer(
    databases: Databases,
) -> None:
    opened = [databases.open(DatabaseKind.REQUESTS) for _ in range(4)]

    def send(index: int) -> None:
        for round_number in range(4):
            base = index * 1000 + round_number * 20
            errors = [
                failed(Sample(sequence=base + n, arrived_at_unix_ns=START_NS)) for n in range(10)
            ]
            take(opened[index], errors + answers(base + 10, 10), seed=base)

    at_once(4, send)

    with opened[0].reading() as session:
        kept = {
            str(why): int(number)
            for why, number in session.execute(
                select(FullRecordRow.kept_because, func.count()).group_by(
                    FullRecordRow.kept_because
                )
            )
        }
        offered = set(session.scalars(select(ReservoirRow.num_offered)))
        assert session.scalar(select(func.count()).select_from(RequestRow)) == 320
    assert kept == {"error": 10, "sample": 5}
    assert offered == {160}
    for database in opened:
        database.close()
