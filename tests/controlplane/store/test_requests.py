"""Reading requests: pages without gaps, exact filters, ids by their beginning."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from controlplane.store.database import (
    Database,
    DatabaseKind,
)
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.requests import (
    PageKey,
    RequestFilter,
    count_since,
    find_record,
    find_requests,
    list_names,
    list_requests,
    ttft_quantile,
)
from dataplane.record import RequestRecord
from ops.sample_requests import Sample, answered, failed, traffic
from tests.databases import Databases

NOW_NS = 1_790_000_000 * 10**9


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.REQUESTS)
    yield made
    made.close()


def take(database: Database, records: list[RequestRecord]) -> None:
    with database.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=0, records=tuple(records))
        store_batch(session, batch, Random(1), ReservoirSizes())


def at(sequence: int, arrived_at_unix_ns: int = NOW_NS, **fields: Any) -> RequestRecord:
    return replace(
        answered(Sample(sequence=sequence, arrived_at_unix_ns=arrived_at_unix_ns)), **fields
    )


def test_pages_hold_every_request_once_even_when_all_arrived_at_once(database: Database) -> None:
    take(database, [at(number) for number in range(7)])
    seen, after = [], None
    with database.reading() as session:
        while page := list_requests(session, RequestFilter(), 3, after):
            seen += [row.gateway_sequence for row in page]
            after = PageKey.of(page[-1])
    assert seen == [6, 5, 4, 3, 2, 1, 0]


def test_a_request_that_arrives_between_two_pages_repeats_nothing(database: Database) -> None:
    take(database, [at(number, NOW_NS + number) for number in range(4)])
    with database.reading() as session:
        first = list_requests(session, RequestFilter(), 2)
    take(database, [at(9, NOW_NS + 9)])
    with database.reading() as session:
        second = list_requests(session, RequestFilter(), 2, PageKey.of(first[-1]))
    assert [row.gateway_sequence for row in first + second] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (RequestFilter(tenant="acme"), lambda record: record.tenant == "acme"),
        (RequestFilter(disposition="error"), lambda record: record.disposition == "error"),
        (RequestFilter(deployment="remote"), lambda record: record.deployment == "remote"),
        (RequestFilter(request_class="batch"), lambda record: record.request_class == "batch"),
        (RequestFilter(in_contract=False), lambda record: record.judgement.in_contract is False),
        (
            RequestFilter(since_unix_ns=NOW_NS - 600 * 10**9),
            lambda record: record.arrived_at_unix_ns >= NOW_NS - 600 * 10**9,
        ),
    ],
)
def test_a_filter_keeps_exactly_what_matches(
    database: Database, wanted: RequestFilter, expected: object
) -> None:
    records = traffic(120, NOW_NS)
    take(database, records)
    with database.reading() as session:
        found = {row.gateway_sequence for row in list_requests(session, wanted, 500)}
    assert callable(expected)
    matching = {record.gateway_sequence for record in records if expected(record)}
    assert found == matching
    assert 0 < len(found) < len(records)


def test_a_page_key_survives_a_url() -> None:
    key = PageKey(arrived_at_unix_ns=5, gateway_sequence=7, gateway_id="gate.way-0.é")
    assert PageKey.parse(str(key)) == key


@pytest.mark.parametrize("text", ["", "1.2", "a.b.c", "-1.2.g", f"{2**64}.1.g"])
def test_what_is_no_page_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        PageKey.parse(text)


def test_a_request_is_found_by_id_trace_and_the_beginning_of_either(database: Database) -> None:
    record = at(0)
    take(database, [record, at(1)])
    names = (record.request_id, record.request_id[:8], record.trace.trace_id[:9])
    with database.reading() as session:
        for name in (*names, record.trace.trace_id):
            assert [row.gateway_sequence for row in find_requests(session, name)] == [0]


def test_wildcards_in_an_id_match_nothing(database: Database) -> None:
    take(database, [at(0)])
    with database.reading() as session:
        assert [find_requests(session, name) for name in ("%", "_", "*", "")] == [[], [], [], []]


def test_a_trace_of_several_requests_names_all_of_them(database: Database) -> None:
    first = at(0)
    take(database, [first, at(1, trace=first.trace)])
    with database.reading() as session:
        assert len(find_requests(session, first.trace.trace_id)) == 2


def test_an_exact_id_wins_over_one_that_only_begins_so(database: Database) -> None:
    take(database, [at(0, request_id="abc"), at(1, request_id="abcd")])
    with database.reading() as session:
        assert [row.request_id for row in find_requests(session, "abc")] == ["abc"]


def test_a_full_record_is_found_where_it_was_kept(database: Database) -> None:
    record = failed(Sample(sequence=0, arrived_at_unix_ns=NOW_NS))
    take(database, [record])
    with database.reading() as session:
        row = find_requests(session, record.request_id)[0]
        assert find_record(session, row) == (record, "error")


def test_the_quantile_is_the_nearest_rank(database: Database) -> None:
    queues = [0.1 * number for number in range(1, 21)]
    take(
        database,
        [
            answered(Sample(sequence=n, arrived_at_unix_ns=NOW_NS, queue_seconds=queue))
            for n, queue in enumerate(queues)
        ],
    )
    with database.reading() as session:
        p95 = ttft_quantile(session, "chat", 0, 0.95)
        assert p95 == pytest.approx(1.9 + 0.026)
        assert ttft_quantile(session, "chat", NOW_NS + 1, 0.95) is None


def test_totals_and_names_come_from_the_exact_counts(database: Database) -> None:
    records = traffic(80, NOW_NS)
    take(database, records)
    with database.reading() as session:
        totals = count_since(session, 0, ["offered"])
        names = list_names(session, 0)
    assert sum(total["offered"] for total in totals.values()) == 80
    assert names["tenant"] == ["acme", "globex", "initech"]
