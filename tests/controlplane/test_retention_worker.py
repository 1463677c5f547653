"""Request data is removed when its time is over, counted, and config is never touched."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sqlalchemy import func, select, text

from controlplane.retention_worker import RetentionWorker
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.database import Database, create_or_open_database
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.removal import RemovedData, oldest_of, remove_step
from controlplane.store.request_tables import (
    FullRecordRow,
    MinuteCountRow,
    RequestRow,
    ReservoirRow,
    SpanReportRow,
)
from controlplane.store.retention import Removal, RemovalReason, Retention, Store
from controlplane.store.room import used_bytes
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, failed
from tests.databases import Databases

DAY_NS = 86_400 * 10**9
NOW_NS = 20_000 * DAY_NS
TABLES = (FullRecordRow, RequestRow, MinuteCountRow, ReservoirRow, SpanReportRow)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.REQUESTS)
    yield made
    made.close()


def at(days_ago: float, sequence: int, make: Any = answered) -> RequestRecord:
    arrived = NOW_NS - int(days_ago * DAY_NS)
    record: RequestRecord = make(Sample(sequence=sequence, arrived_at_unix_ns=arrived))
    return record


def take(database: Database, records: list[RequestRecord]) -> None:
    batch = RecordBatch(gateway_id="g", num_lost=0, records=tuple(records))
    with database.session() as session:
        store_batch(session, batch, Random(1), ReservoirSizes())


def report(database: Database, record: RequestRecord) -> None:
    with database.session() as session:
        session.add(
            SpanReportRow(
                trace_id=record.trace.trace_id,
                span_id="0" * 16,
                sender="",
                side="client",
                received_at_unix_ns=NOW_NS,
                gateway_id=record.gateway_id,
                gateway_sequence=record.gateway_sequence,
                report=b"{}",
            )
        )


def left(database: Database) -> dict[str, int]:
    with database.reading() as session:
        return {
            table.__tablename__: session.scalar(select(func.count()).select_from(table)) or 0
            for table in TABLES
        }


def sequences(database: Database) -> set[int]:
    with database.reading() as session:
        return set(session.scalars(select(RequestRow.gateway_sequence)))


def worker(database: Database, **retention: Any) -> RetentionWorker:
    return RetentionWorker(database, Retention(**retention), clock=lambda: NOW_NS)


def test_each_store_loses_what_is_older_than_it_is_kept(database: Database) -> None:
    ages = (1, 15, 36, 401)
    records = [at(age, number, failed) for number, age in enumerate(ages)]
    take(database, records)
    for record in records:
        report(database, record)

    worker(database).do_pass()

    assert sequences(database) == {0, 1}
    with database.reading() as session:
        assert session.scalars(select(FullRecordRow.gateway_sequence)).all() == [0]
        assert session.scalars(select(ReservoirRow.num_offered)).all() == [1]
        assert set(session.scalars(select(SpanReportRow.gateway_sequence))) == {0, 1}
        assert oldest_of(session)[Store.MINUTE_COUNTS] == NOW_NS - 36 * DAY_NS


def test_what_was_removed_is_counted_by_table_and_reason(database: Database) -> None:
    take(database, [at(20, number) for number in range(5)])
    done = worker(database)
    assert done.do_pass() == 5
    assert done.removed == [
        RemovedData(store="full_records", reason="age", num_rows=5, last_at_unix_ns=NOW_NS)
    ]
    take(database, [at(20, number) for number in range(5, 7)])
    done.do_pass()
    assert [each.num_rows for each in done.removed] == [7]


def test_a_second_pass_finds_nothing_to_do(database: Database) -> None:
    take(database, [at(age, age) for age in range(40)])
    assert worker(database).do_pass() > 0
    before = left(database)
    assert worker(database).do_pass() == 0
    assert left(database) == before


def test_a_step_removes_the_oldest_and_no_more_than_it_may(database: Database) -> None:
    take(database, [at(number, number) for number in range(10)])
    removal = Removal(store=Store.REQUESTS, before_unix_ns=NOW_NS, reason=RemovalReason.AGE)
    with database.session() as session:
        assert remove_step(session, removal, 3, NOW_NS) == 3
    assert sequences(database) == set(range(7))


def test_requests_of_the_same_instant_go_together_and_the_steps_end(database: Database) -> None:
    take(database, [at(50, number) for number in range(20)])
    removal = Removal(store=Store.REQUESTS, before_unix_ns=NOW_NS, reason=RemovalReason.AGE)
    with database.session() as session:
        assert remove_step(session, removal, 3, NOW_NS) == 20
        assert remove_step(session, removal, 3, NOW_NS) == 0


def test_a_request_that_comes_late_is_stored_though_its_neighbours_are_gone(
    database: Database,
) -> None:
    take(database, [at(15, 0, failed)])
    worker(database).do_pass()
    take(database, [at(15, 1, failed), at(15, 0, failed)])
    assert left(database)["full_records"] == 1
    assert left(database)["requests"] == 2


def test_a_bound_on_the_size_shortens_the_times(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "r.db")
    database = create_or_open_database(url, DatabaseKind.REQUESTS)
    for day in range(30):
        take(database, [at(day / 3, day * 100 + number) for number in range(100)])
    with database.reading() as session:
        full = used_bytes(session.connection())
    bound = full // 2

    shrinking = worker(database, max_bytes=bound)
    shrinking.do_pass()

    assert shrinking.num_bytes is not None
    assert bound // 2 < shrinking.num_bytes <= bound
    kept = sequences(database)
    assert kept == set(range(len(kept))), "the newest stay"
    assert {each.reason for each in shrinking.removed} == {"size"}
    database.close()


def test_the_size_of_living_rows_is_estimated_on_postgresql(database: Database) -> None:
    take(database, [at(1, number) for number in range(2000)])
    with database.session() as session:
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text("SELECT pg_stat_force_next_flush()"))
    with database.reading() as session:
        size = used_bytes(session.connection())
    assert 2_000 * 300 < size < 2_000 * 10_000


def test_room_that_became_free_goes_back_to_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "r.db"
    database = create_or_open_database(sqlite_url(path), DatabaseKind.REQUESTS)
    with database.session() as session:
        for number in range(90):
            session.add(
                FullRecordRow(
                    gateway_id="g",
                    gateway_sequence=number,
                    request_id=str(number),
                    minute_unix=0,
                    request_class="",
                    kept_because="error",
                    record=bytes(2**20),
                )
            )
    with database.session() as session:
        session.execute(text("DELETE FROM full_records"))
    worker(database).do_pass()
    with database.session() as session:
        pages = session.execute(text("PRAGMA page_count")).scalar_one()
    assert pages * 4096 < 70 * 2**20
    database.close()


def test_a_list_takes_the_narrower_index_once_the_data_was_looked_at(tmp_path: Path) -> None:
    database = create_or_open_database(sqlite_url(tmp_path / "r.db"), DatabaseKind.REQUESTS)
    take(database, [at(1, number) for number in range(300)])
    take(database, [replace(at(1, number), tenant="small") for number in range(300, 303)])
    worker(database).do_pass()
    query = "EXPLAIN QUERY PLAN SELECT * FROM requests WHERE tenant = 'small'" + (
        " AND disposition = 'stop' ORDER BY arrived_at_unix_ns DESC LIMIT 5"
    )
    with database.reading() as session:
        plan = " ".join(str(row) for row in session.execute(text(query)))
    assert "requests_by_tenant" in plan
    database.close()


def test_a_worker_ends_when_it_is_told_to_and_outlives_an_error(database: Database) -> None:
    with database.session() as session:
        session.execute(text("ALTER TABLE removed_data RENAME TO elsewhere"))
    take(database, [at(40, 1)])
    failing = RetentionWorker(database, Retention(), pass_seconds=0.01)
    failing.start()
    while failing.num_failed_passes < 2:
        time.sleep(0.01)
    assert "removed_data" in (failing.error or "")
    with database.session() as session:
        session.execute(text("ALTER TABLE elsewhere RENAME TO removed_data"))
    while not failing.removed:
        time.sleep(0.01)
    failing.stop()
    assert failing.error is None
