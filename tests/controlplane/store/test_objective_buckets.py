"""Good and judged requests bucket by bucket, from minutes or from hours."""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from controlplane.slo.event_counts import NO_EVENTS
from controlplane.store.connection import DatabaseKind
from controlplane.store.counts import HOUR_SECONDS, add_counts
from controlplane.store.database import Database
from controlplane.store.objective_buckets import read_objective_buckets
from controlplane.store.objective_counts import ObjectiveKey, read_objective_counts
from controlplane.store.request_rows import CountKey
from controlplane.store.series import SeriesSpan
from tests.databases import Databases

START = 1_790_000_000 // HOUR_SECONDS * HOUR_SECONDS
MINUTES = 400


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    random, counts = Random(5), Counter[CountKey]()
    for _ in range(300):
        minute = START + random.randrange(MINUTES) * 60
        names = (minute, random.choice(["chat", "other"]), random.choice(["fast", "bulk"]))
        objective = random.choice(["ttft", "together"])
        total = random.randrange(1, 50)
        tenant = random.choice(["acme", "globex"])
        for word, value in (("good", random.randrange(total + 1)), ("total", total)):
            counts[CountKey(*names, tenant, "chat@1", f"objective.{objective}.{word}")] += value
    with opened.session() as session:
        add_counts(session, counts)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("first", "last", "step"),
    [
        (0, 360 * 60, HOUR_SECONDS),
        (0, 395 * 60, HOUR_SECONDS),  # the hour under way ends with its last whole minute
        (0, 395 * 60, 2 * HOUR_SECONDS),
        (7 * 60, 367 * 60, HOUR_SECONDS),  # of no whole hours
        (35 * 60, 95 * 60, 300),
    ],
)
def test_each_bucket_holds_what_was_counted_in_its_time(
    database: Database, first: int, last: int, step: int
) -> None:
    span = SeriesSpan(start_unix=START + first, end_unix=START + last, step_seconds=step)
    with database.reading() as session:
        found = read_objective_buckets(session, span, "chat")
        assert set(found) == {(c, o) for c in ("fast", "bulk") for o in ("ttft", "together")}
        for (request_class, objective), buckets in found.items():
            start = span.start_unix
            assert len(buckets) == len(span.bucket_seconds)
            for seconds, bucket in zip(span.bucket_seconds, buckets, strict=True):
                counts = read_objective_counts(session, start, start + seconds, "chat")
                key = ObjectiveKey("chat", request_class, objective)
                assert bucket == counts.get(key, NO_EVENTS)
                start += seconds
