"""Full records in pages: each once, none too large, and only those that were kept."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from controlplane.store.database import Database, DatabaseKind
from controlplane.store.kept_records import list_records
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.requests import PageKey, RequestFilter
from dataplane.record import RequestRecord, encode_record
from ops.sample_requests import Sample, answered
from tests.databases import Databases

NOW_NS = 1_790_000_000 * 10**9
NUM_REQUESTS = 230
NUM_KEPT = 220
WANTED = RequestFilter(has_record=True)


def record(sequence: int) -> RequestRecord:
    made = answered(Sample(sequence=sequence, arrived_at_unix_ns=NOW_NS))
    return replace(made, request_class="chat")


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    """More requests than full records, and more records than one query asks for."""
    made = databases.open(DatabaseKind.REQUESTS)
    records = tuple(record(number) for number in range(NUM_REQUESTS))
    sizes = ReservoirSizes(error=NUM_KEPT, violator=NUM_KEPT, sample=NUM_KEPT)
    with made.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=0, records=records)
        store_batch(session, batch, Random(1), sizes)
    yield made
    made.close()


def pages_of(database: Database, limit: int, max_bytes: int) -> list[list[RequestRecord]]:
    pages: list[list[RequestRecord]] = []
    after = None
    with database.reading() as session:
        while True:
            page = list_records(session, WANTED, limit, max_bytes, after)
            pages.append(list(page.records.values()))
            if not page.has_more:
                return pages
            after = PageKey.of(page.rows[-1])


@pytest.mark.parametrize("limit", [7, 110, 500])
def test_pages_hold_every_kept_record_once_and_no_request_without_one(
    database: Database, limit: int
) -> None:
    pages = pages_of(database, limit, max_bytes=2**30)
    found = [each for page in pages for each in page]
    assert len(pages) == -(-NUM_KEPT // limit)
    assert len({each.gateway_sequence for each in found}) == len(found) == NUM_KEPT
    assert all(each == record(each.gateway_sequence) for each in found)


def test_a_page_ends_before_its_records_grow_too_large(database: Database) -> None:
    most = 5 * len(encode_record(record(100)))
    pages = pages_of(database, 500, most)
    sizes = [
        sum(len(encode_record(record(each.gateway_sequence))) for each in page) for page in pages
    ]
    assert max(sizes) <= most
    assert sum(map(len, pages)) == NUM_KEPT


def test_a_record_larger_than_a_page_is_a_page_by_itself(database: Database) -> None:
    assert [len(page) for page in pages_of(database, 500, 1)] == [1] * NUM_KEPT
