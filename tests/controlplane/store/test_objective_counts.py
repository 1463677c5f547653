"""Good and judged requests of a time, whatever hours and minutes it is read from."""

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from controlplane.slo.event_counts import EventCounts
from controlplane.store.connection import DatabaseKind
from controlplane.store.counts import HOUR_SECONDS, add_counts
from controlplane.store.database import Database
from controlplane.store.objective_counts import ObjectiveKey, read_objective_counts
from controlplane.store.request_rows import CountKey
from tests.databases import Databases

START = 1_790_000_000 // HOUR_SECONDS * HOUR_SECONDS
MINUTES = 400


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def _fill(database: Database) -> list[tuple[int, ObjectiveKey, EventCounts]]:
    random, judged = Random(5), []
    with database.session() as session:
        for _ in range(300):
            minute = random.randrange(MINUTES)
            key = ObjectiveKey(
                random.choice(["chat", "batch"]),
                random.choice(["interactive", "bulk"]),
                random.choice(["ttft", "availability", "together"]),
            )
            total = random.randrange(1, 50)
            good = random.randrange(total + 1)
            judged.append((minute, key, EventCounts(good=good, total=total)))
            names = (START + minute * 60, key.deployment, key.request_class)
            revision = random.choice(["chat@1", "chat@2"])
            tenant = random.choice(["acme", "globex"])
            for word, value in (("good", good), ("total", total)):
                measure = f"objective.{key.objective}.{word}"
                add_counts(session, {CountKey(*names, tenant, revision, measure): value})
            add_counts(session, {CountKey(*names, tenant, revision, "in_contract.total"): 7})
    return judged


def test_sums_are_those_of_the_minutes_in_them_of_all_tenants_and_revisions(
    database: Database,
) -> None:
    judged, random = _fill(database), Random(6)
    for _ in range(20):
        first, last = sorted(random.sample(range(MINUTES), 2))
        sums: Counter[tuple[ObjectiveKey, str]] = Counter()
        for minute, key, counted in judged:
            if first <= minute < last:
                sums[key, "good"] += counted.good
                sums[key, "total"] += counted.total
        expected = {
            key: EventCounts(good=sums[key, "good"], total=total)
            for (key, word), total in sums.items()
            if word == "total"
        }
        with database.reading() as session:
            found = read_objective_counts(session, START + first * 60, START + last * 60)
            of_one = read_objective_counts(
                session, START + first * 60, START + last * 60, deployment="chat"
            )
        assert found == expected
        assert of_one == {key: each for key, each in expected.items() if key.deployment == "chat"}
