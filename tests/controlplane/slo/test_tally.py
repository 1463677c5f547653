"""What is kept in memory says the same as the database, however often it is asked."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from controlplane.slo.alert_windows import BURN_WINDOWS, DAY, HOUR, MINUTE
from controlplane.slo.event_counts import EventCounts
from controlplane.slo.tally import LONGEST_BY_MINUTES, CountsByKey, Tally
from controlplane.store.connection import DatabaseKind
from controlplane.store.counts import add_counts
from controlplane.store.database import Database
from controlplane.store.objective_counts import ObjectiveKey, read_objective_counts
from controlplane.store.request_rows import CountKey
from tests.databases import open_sqlite

PERIOD = 7 * DAY
START = 1_790_000_000 // HOUR * HOUR


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = open_sqlite(tmp_path / "requests.db", DatabaseKind.REQUESTS)
    yield opened
    opened.close()


def _judge(database: Database, at_unix: int, deployment: str, good: int, total: int) -> int:
    """Returns the minute."""
    minute = at_unix // MINUTE * MINUTE
    names = (minute, deployment, "interactive", "acme", "chat@1")
    with database.session() as session:
        counts = {"objective.ttft.good": good, "objective.ttft.total": total}
        add_counts(session, Counter({CountKey(*names, name): n for name, n in counts.items()}))
    return minute


def _expected(database: Database, now: int, seconds: int) -> CountsByKey:
    end = now - now % MINUTE + MINUTE
    start = end - seconds
    if seconds > LONGEST_BY_MINUTES:
        start = (now - seconds) // HOUR * HOUR
    with database.reading() as session:
        found = read_objective_counts(session, start, end)
    return {key: EventCounts(good=each.good, total=each.total) for key, each in found.items()}


def _found(tally: Tally, database: Database, now: int) -> dict[int, CountsByKey]:
    with database.reading() as session:
        tally.refresh(session, now, PERIOD)
    return {seconds: tally.counts(now, seconds) for seconds in (*BURN_WINDOWS, PERIOD)}


def _assert_same(tally: Tally, database: Database, now: int) -> None:
    for seconds, found in _found(tally, database, now).items():
        assert found == _expected(database, now, seconds), (now, seconds)


@pytest.mark.parametrize("seed", range(3))
def test_windows_are_those_of_the_database_as_time_goes_on(database: Database, seed: int) -> None:
    random, tally, now = Random(seed), Tally(), START + 100
    for _ in range(25):
        now += random.choice([30, 30, 45, 3 * MINUTE, 50 * MINUTE, 8 * HOUR])
        for _ in range(random.randrange(4)):
            total = random.randrange(1, 90)
            age = random.choice([0, 30, 90, 20 * MINUTE, 5 * HOUR, 30 * HOUR, 6 * DAY])
            name = random.choice(["chat", "batch"])
            tally.note_changed(_judge(database, now - age, name, random.randrange(total), total))
        _assert_same(tally, database, now)


def test_more_objectives_than_there_was_room_for_are_all_counted(database: Database) -> None:
    tally, now = Tally(), START + 5 * MINUTE
    _judge(database, now, "first", 1, 1)
    _assert_same(tally, database, now)
    for number in range(600):
        _judge(database, now + 30, f"chat-{number}", 1, 2)
    assert len(_found(tally, database, now + 30)[5 * MINUTE]) == 601
    _assert_same(tally, database, now + 30)


def test_what_came_late_and_nobody_noted_is_counted_within_ten_minutes(database: Database) -> None:
    tally, now = Tally(), START + 40 * MINUTE
    _assert_same(tally, database, now)
    _judge(database, now - 20 * MINUTE, "chat", 0, 7)
    key = ObjectiveKey("chat", "interactive", "ttft")
    assert key not in _found(tally, database, now + 30)[HOUR]
    assert _found(tally, database, now + 10 * MINUTE)[HOUR][key].bad == 7


def test_a_clock_that_goes_back_has_all_read_anew(database: Database) -> None:
    tally, now = Tally(), START + 2 * DAY
    _judge(database, now - 3 * HOUR, "chat", 3, 7)
    _assert_same(tally, database, now)
    _assert_same(tally, database, now - 2 * HOUR)


def test_a_longer_budget_than_before_is_read_whole(database: Database) -> None:
    tally, now = Tally(), START + 30 * DAY
    _judge(database, now - 20 * DAY, "chat", 3, 7)
    with database.reading() as session:
        tally.refresh(session, now, DAY)
        tally.refresh(session, now, 30 * DAY)
    assert tally.counts(now, 30 * DAY) == _expected(database, now, 30 * DAY) != {}
