"""What requests took of engines, in their rows and in the exact counts."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import msgspec
import pytest
from sqlalchemy import select

from controlplane.store.database import Database, DatabaseKind
from controlplane.store.records import (
    BatchError,
    RecordBatch,
    ReservoirSizes,
    decode_batch,
    store_batch,
)
from controlplane.store.request_tables import RequestRow
from controlplane.store.usage import UsageKey, read_usage
from dataplane.lifecycle import Observability
from dataplane.metering import Metered
from dataplane.record import RequestRecord, decode_record, encode_record
from ops.sample_requests import Sample, answered, lost, rejected
from tests.databases import Databases

AT = 1_790_000_040
TOLD = Metered(
    engine_seconds=1.25, engine_observability=Observability.OBSERVED, kv_block_seconds=7.5
)
WORKED_OUT = Metered(
    engine_seconds=0.5, engine_observability=Observability.INFERRED, kv_block_seconds=None
)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def sample(sequence: int) -> Sample:
    return Sample(sequence=sequence, arrived_at_unix_ns=AT * 10**9)


def take(database: Database, *records: RequestRecord) -> None:
    with database.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=0, records=records)
        store_batch(session, batch, Random(1), ReservoirSizes())


def test_a_row_says_what_it_took_and_whether_the_engine_told_or_nobody_knows(
    database: Database,
) -> None:
    take(
        database,
        replace(answered(sample(0)), metered=TOLD),
        replace(answered(sample(1)), metered=WORKED_OUT),
        replace(answered(sample(2)), metered=None),
    )
    with database.reading() as session:
        rows = session.scalars(select(RequestRow).order_by(RequestRow.gateway_sequence)).all()
        told = [(r.engine_seconds, r.is_engine_inferred, r.kv_block_seconds) for r in rows]
    assert told == [(1.25, False, 7.5), (0.5, True, None), (None, None, None)]


def test_counts_keep_apart_what_was_told_what_was_worked_out_and_what_nobody_knows(
    database: Database,
) -> None:
    take(
        database,
        replace(answered(sample(0)), metered=TOLD),
        replace(answered(sample(1)), metered=WORKED_OUT),
        lost(sample(2)),
        rejected(sample(3)),
    )
    with database.reading() as session:
        found = read_usage(session, AT // 60 * 60, AT // 60 * 60 + 60)
    [counts] = [found[UsageKey("chat", "interactive", "acme")]]
    assert counts["offered"] == 4
    assert (counts["metered.requests"], counts["kv.requests"]) == (2, 1)
    assert (counts["engine.observed_us"], counts["engine.inferred_us"]) == (1_250_000, 500_000)
    assert counts["kv.block_ms"] == 7500


def test_a_record_of_before_this_was_measured_still_decodes_and_is_stored(
    database: Database,
) -> None:
    fields = msgspec.json.decode(encode_record(answered(sample(0))))
    del fields["metered"]
    record = decode_record(msgspec.json.encode(fields))
    assert record.metered is None
    take(database, record)
    with database.reading() as session:
        assert session.scalars(select(RequestRow)).one().engine_seconds is None


@pytest.mark.parametrize("seconds", [-1.0, 1e13])
def test_what_no_engine_can_have_worked_refuses_the_batch_with_its_place(seconds: float) -> None:
    record = replace(answered(sample(0)), metered=replace(TOLD, engine_seconds=seconds))
    batch = RecordBatch(gateway_id="g", num_lost=0, records=(record,))
    with pytest.raises(BatchError, match=r"records\[0\]\.metered\.engine_seconds: must lie"):
        decode_batch(msgspec.json.encode(batch))
