"""Taking records in: once each, counted exactly, sampled within bounds."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select

from controlplane.store.database import (
    Database,
    DatabaseKind,
)
from controlplane.store.records import (
    BatchError,
    IngestReport,
    RecordBatch,
    ReservoirSizes,
    decode_batch,
    store_batch,
)
from controlplane.store.request_tables import (
    FullRecordRow,
    GatewayLossRow,
    MinuteCountRow,
    RequestRow,
    ReservoirRow,
)
from dataplane.record import RequestRecord, decode_record
from ops.sample_requests import Sample, answered, cancelled, failed, invalid, lost, rejected
from tests.databases import Databases

MINUTE_NS = 60 * 10**9
START_NS = 1_790_000_040 * 10**9  # the start of a minute


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.REQUESTS)
    yield made
    made.close()


def sample(sequence: int, **fields: Any) -> Sample:
    return replace(
        Sample(sequence=sequence, arrived_at_unix_ns=START_NS + sequence * 10**6), **fields
    )


def take(
    database: Database,
    records: list[RequestRecord],
    sizes: ReservoirSizes | None = None,
    num_lost: int = 0,
    seed: int = 1,
) -> IngestReport:
    batch = RecordBatch(gateway_id="gateway-0-9c1f", num_lost=num_lost, records=tuple(records))
    with database.session() as session:
        return store_batch(session, batch, Random(seed), sizes or ReservoirSizes())


def counts(database: Database) -> dict[str, int]:
    with database.reading() as session:
        rows = session.execute(
            select(MinuteCountRow.measure, func.sum(MinuteCountRow.value)).group_by(
                MinuteCountRow.measure
            )
        )
        return {measure: int(value) for measure, value in rows}


def num_rows(database: Database, table: type) -> int:
    with database.reading() as session:
        return session.scalar(select(func.count()).select_from(table)) or 0


def test_a_batch_sent_again_changes_nothing(database: Database) -> None:
    records = [answered(sample(0)), rejected(sample(1)), failed(sample(2))]
    assert take(database, records) == IngestReport(stored=3, duplicates=0)
    before = counts(database)
    assert take(database, records) == IngestReport(stored=0, duplicates=3)
    assert counts(database) == before
    assert num_rows(database, RequestRow) == num_rows(database, FullRecordRow) == 3


def test_what_is_new_in_a_batch_that_overlaps_is_stored(database: Database) -> None:
    take(database, [answered(sample(0)), answered(sample(1))])
    report = take(database, [answered(sample(1)), answered(sample(2)), answered(sample(2))])
    assert report == IngestReport(stored=1, duplicates=2)
    assert counts(database)["offered"] == 3


def test_the_same_sequence_of_another_gateway_is_another_request(database: Database) -> None:
    take(database, [answered(sample(0)), answered(sample(0, gateway_id="gateway-1"))])
    assert num_rows(database, RequestRow) == 2


def test_counts_are_exact_by_measure(database: Database) -> None:
    records = [answered(sample(0)), cancelled(sample(1)), rejected(sample(2)), lost(sample(3))]
    take(database, [*records, answered(sample(4, queue_seconds=0.4))])
    found = counts(database)
    assert found["offered"] == 5
    assert found["disposition.stop"] == 2
    assert found["disposition.rejected"] == found["disposition.lost"] == 1
    assert found["tokens.output"] == sum(
        record.num_output_tokens or 0 for record in (*records, answered(sample(4)))
    ), "what a dead gateway had counted is unknown, and adds nothing"
    assert found["tokens.input"] == 3 * 128, "not of what no engine is known to have seen"
    assert found["objective.ttft.total"] == 5
    assert found["objective.ttft.good"] == 2, "in time: the first and the cancelled one"
    assert found["in_contract.total"] == 5
    assert found["in_contract.good"] == 2


def test_output_that_nobody_counted_is_unknown_and_not_zero(database: Database) -> None:
    take(database, [lost(sample(0)), rejected(sample(1))])
    with database.reading() as session:
        rows = session.scalars(select(RequestRow).order_by(RequestRow.gateway_sequence)).all()
        assert [row.num_output_tokens for row in rows] == [None, 0]
    assert "tokens.output" not in counts(database)


def test_counts_add_up_across_batches_of_one_minute(database: Database) -> None:
    take(database, [answered(sample(0))])
    take(database, [answered(sample(1))])
    with database.reading() as session:
        offered = session.scalars(
            select(MinuteCountRow).where(MinuteCountRow.measure == "offered")
        ).all()
    assert [(row.value, row.minute_unix * 10**9) for row in offered] == [(2, START_NS)]


def test_a_flood_of_errors_cannot_push_out_violators_or_samples(database: Database) -> None:
    sizes = ReservoirSizes(error=5, violator=5, sample=5)
    take(database, [answered(sample(0)), answered(sample(1, queue_seconds=0.4))], sizes)
    take(database, [failed(sample(number)) for number in range(2, 200)], sizes)
    with database.reading() as session:
        kept = session.execute(
            select(FullRecordRow.kept_because, func.count()).group_by(FullRecordRow.kept_because)
        )
        counts = sorted((str(because), int(number)) for because, number in kept)
    assert counts == [("error", 5), ("sample", 1), ("violator", 1)]


def test_reservoirs_stay_fair_across_batches(database: Database) -> None:
    sizes, kept = ReservoirSizes(sample=4), [0, 0]
    for round_number in range(24):
        base = round_number * 40
        minute = START_NS + round_number * MINUTE_NS
        records = [
            answered(Sample(sequence=base + n, arrived_at_unix_ns=minute, num_output_tokens=1))
            for n in range(40)
        ]
        for start in range(0, 40, 10):
            take(database, records[start : start + 10], sizes, seed=base + start)
    with database.reading() as session:
        for sequence in session.scalars(select(FullRecordRow.gateway_sequence)):
            kept[sequence % 40 >= 20] += 1
        offered = set(session.scalars(select(ReservoirRow.num_offered)))
    assert offered == {40}
    assert sum(kept) == 24 * 4
    # Half of 96 from each half; five standard deviations are 25.
    assert all(23 < number < 73 for number in kept)


def test_the_kept_record_is_the_whole_record(database: Database) -> None:
    record = failed(sample(0))
    take(database, [record])
    with database.reading() as session:
        kept = session.scalars(select(FullRecordRow)).one()
    assert decode_record(kept.record) == record
    assert kept.kept_because == "error"


def test_losses_are_kept_as_the_gateway_last_said(database: Database) -> None:
    for num_lost in (3, 7, 7):
        take(database, [], num_lost=num_lost)
    with database.reading() as session:
        assert session.scalars(select(GatewayLossRow.num_lost)).all() == [7]


def test_a_refusal_has_no_time_to_first_token(database: Database) -> None:
    take(database, [rejected(sample(0)), invalid(sample(1))])
    with database.reading() as session:
        assert session.scalars(select(RequestRow.ttft)).all() == [None, None]


def test_made_up_tenants_of_refused_requests_make_no_counters(database: Database) -> None:
    stranger = replace(invalid(sample(0)), deployment=None, tenant="x" * 5000)
    take(database, [stranger])
    with database.reading() as session:
        assert set(session.scalars(select(MinuteCountRow.tenant))) == {""}
        assert len(session.scalars(select(RequestRow.tenant)).one() or "") == 128


def test_two_thousand_records_are_stored_in_one_go(database: Database) -> None:
    records = [answered(sample(n, num_output_tokens=2)) for n in range(2000)]
    assert take(database, records) == IngestReport(stored=2000, duplicates=0)
    assert num_rows(database, FullRecordRow) == ReservoirSizes().sample


def encoded(**changes: object) -> bytes:
    batch = RecordBatch(gateway_id="g", num_lost=0, records=(answered(sample(0)),))
    document = msgspec.to_builtins(batch)
    document["records"][0].update(changes)
    return msgspec.json.encode(document)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (b"{", "body"),
        (b"[]", "body"),
        (b"\xff\xfe", "body"),
        (b'{"gateway_id": "g", "records": []}', "body"),
        (b'{"gateway_id": "g", "num_lost": -1, "records": []}', "num_lost"),
        (encoded(gateway_sequence="one"), "records[0].gateway_sequence"),
        (encoded(gateway_sequence=-1), "records[0].gateway_sequence"),
        (encoded(arrived_at_unix_ns=2**70), "records[0].arrived_at_unix_ns"),
        (encoded(disposition="tired"), "records[0].disposition"),
        (encoded(request_id="x" * 65), "records[0].request_id"),
        (encoded(events=[{"kind": "arrived"}]), "records[0].events[0]"),
    ],
)
def test_a_bad_batch_names_where_it_is_bad(body: bytes, path: str) -> None:
    with pytest.raises(BatchError) as refused:
        decode_batch(body)
    assert refused.value.path == path
    assert str(refused.value).startswith(path)


def test_a_batch_survives_the_wire() -> None:
    batch = RecordBatch(gateway_id="g", num_lost=2, records=(answered(sample(0)), lost(sample(1))))
    assert decode_batch(msgspec.json.encode(batch)) == batch
