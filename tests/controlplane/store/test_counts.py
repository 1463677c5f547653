"""Counts by the hour are those by the minute, summed: whatever adds to them and removes them."""

from collections.abc import Iterator
from random import Random

import pytest
from sqlalchemy import func, select

from controlplane.store.connection import DatabaseKind
from controlplane.store.counts import HOUR_SECONDS, add_counts
from controlplane.store.database import Database, open_database
from controlplane.store.removal import remove_step
from controlplane.store.request_rows import CountKey
from controlplane.store.request_tables import HourCountRow, MinuteCountRow
from controlplane.store.retention import Removal, RemovalReason, Store
from controlplane.store.series import MinuteSample, SeriesSpan, add_samples, read_series
from controlplane.store.upgrade import migrate
from tests.databases import Databases

START = 1_790_000_000 // HOUR_SECONDS * HOUR_SECONDS


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def count(minute: int, value: int, measure: str = "offered") -> dict[CountKey, int]:
    return {CountKey(START + minute * 60, "chat", "only", "acme", "", measure): value}


def fill(database: Database) -> None:
    random = Random(3)
    with database.session() as session:
        for _ in range(50):
            measure = random.choice(["offered", "ttft.7", "disposition.stop"])
            add_counts(session, count(random.randrange(300), random.randrange(1, 9), measure))
        add_samples(
            session,
            [MinuteSample(minute_unix=START, deployment="", num_gateways=1, active=1, queued=0)],
        )


def by_hour(database: Database) -> dict[tuple[int, str], int]:
    with database.reading() as session:
        rows = session.execute(
            select(HourCountRow.hour_unix, HourCountRow.measure, HourCountRow.value)
        )
        return {(hour, measure): value for hour, measure, value in rows}


def summed_minutes(database: Database) -> dict[tuple[int, str], int]:
    sums: dict[tuple[int, str], int] = {}
    with database.reading() as session:
        rows = session.execute(
            select(MinuteCountRow.minute_unix, MinuteCountRow.measure, MinuteCountRow.value)
        )
        for minute, measure, value in rows:
            if not measure.startswith("sampled."):
                key = (minute // HOUR_SECONDS * HOUR_SECONDS, measure)
                sums[key] = sums.get(key, 0) + value
    return sums


def test_hours_are_the_sums_of_their_minutes_but_for_gauges(database: Database) -> None:
    fill(database)

    assert len(by_hour(database)) > 5
    assert by_hour(database) == summed_minutes(database)


def test_a_correction_reaches_both(database: Database) -> None:
    with database.session() as session:
        add_counts(session, count(61, 5))
        add_counts(session, count(62, 1))
        add_counts(session, count(61, -2))

    assert by_hour(database) == {(START + HOUR_SECONDS, "offered"): 4}


@pytest.mark.parametrize("num_minutes", [5 * 60, 4 * 60 + 17])
def test_a_series_of_hours_says_what_one_of_minutes_says(
    database: Database, num_minutes: int
) -> None:
    fill(database)
    end = START + num_minutes * 60
    with database.reading() as session:
        hours = read_series(
            session, SeriesSpan(start_unix=START, end_unix=end, step_seconds=HOUR_SECONDS), "chat"
        )
        minutes = read_series(
            session, SeriesSpan(start_unix=START, end_unix=end, step_seconds=60), "chat"
        )

    assert max(hours) == 4
    for hour, bucket in hours.items():
        inside = [each for number, each in minutes.items() if number // 60 == hour]
        for measure, value in bucket.counts.items():
            assert value == sum(each.counts.get(measure, 0) for each in inside)
        assert bucket.ttft.get(7, 0) == sum(each.ttft.get(7, 0) for each in inside)


def test_an_hour_goes_with_the_last_of_its_minutes(database: Database) -> None:
    fill(database)
    removal = Removal(
        store=Store.MINUTE_COUNTS,
        reason=RemovalReason.AGE,
        before_unix_ns=(START + 90 * 60) * 10**9,
    )
    with database.session() as session:
        while remove_step(session, removal, 20, 0):
            pass
    hours = {hour for hour, _ in by_hour(database)}
    assert START not in hours
    assert START + HOUR_SECONDS in hours

    with database.session() as session:
        everything = Removal(
            store=Store.MINUTE_COUNTS, reason=RemovalReason.AGE, before_unix_ns=2**62
        )
        while remove_step(session, everything, 1000, 0):
            pass
        assert session.scalar(select(func.count()).select_from(HourCountRow)) == 0


def test_an_upgrade_sums_up_what_was_counted_before(databases: Databases) -> None:
    url = databases.url(DatabaseKind.REQUESTS)
    database = databases.open(DatabaseKind.REQUESTS)
    fill(database)
    before = by_hour(database)
    database.close()

    migrate(url, DatabaseKind.REQUESTS, "0004")
    migrate(url, DatabaseKind.REQUESTS, "head")

    database = open_database(url, DatabaseKind.REQUESTS)
    assert by_hour(database) == before
    database.close()
