"""The last minutes are counted exactly, and whose requests were turned away."""

from collections.abc import Iterator
from random import Random

import pytest

from controlplane.api.late_counts import LateCounts, RefusedTenant, read_late_counts
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from dataplane.record import RequestRecord
from ops.sample_requests import answered, cancelled, expired, failed, invalid, lost, rejected
from ops.sample_story import Sample
from tests.databases import Databases

NOW = 1_790_000_070
"""Half a minute into a minute: the window begins 330 s ago."""


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def sample(sequence: int, age_seconds: float, tenant: str = "acme") -> Sample:
    at = round((NOW - age_seconds) * 1e9)
    return Sample(sequence=sequence, arrived_at_unix_ns=at, tenant=tenant)


def counts(database: Database, *records: RequestRecord) -> dict[str, LateCounts]:
    batch = RecordBatch(gateway_id="gateway-0-9c1f", num_lost=0, records=records)
    with database.session() as session:
        store_batch(session, batch, Random(0), ReservoirSizes())
    with database.reading() as session:
        return read_late_counts(session, NOW * 10**9)


def test_all_that_ended_is_counted_once_and_malformed_ones_are_none_of_it(
    database: Database,
) -> None:
    kinds = (answered, rejected, expired, failed, lost, cancelled, invalid)
    records = [kind(sample(number, 10.0 * number)) for number, kind in enumerate(kinds)]
    told = counts(database, *records, answered(sample(20, 331)))["chat"]
    assert told == LateCounts(
        window_seconds=330.0,
        num_asked=6,
        num_rejected=1,
        num_failed=3,
        num_judged=told.num_judged,
        num_good=told.num_good,
    )
    assert 0 < told.num_good < told.num_judged


def test_the_tenant_of_which_most_was_turned_away_is_told_where_there_are_others(
    database: Database,
) -> None:
    own = [rejected(sample(number, number)) for number in range(8)]
    others = [answered(sample(20 + number, number, "globex")) for number in range(5)]
    told = counts(database, *own, *others, rejected(sample(30, 1, "globex")))["chat"]
    assert told.most_refused == RefusedTenant(name="acme", num_asked=8, num_rejected=8)


def test_where_nobody_asked_there_is_nothing(database: Database) -> None:
    assert counts(database) == {}
