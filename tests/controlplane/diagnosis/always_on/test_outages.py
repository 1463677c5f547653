"""A database that is lost for a while costs incidents their progress, and nobody an answer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from controlplane.diagnosis.always_on.outages import DatabaseLostError, Outages
from controlplane.diagnosis.rules import CACHE
from controlplane.store.database import Database
from controlplane.store.incident import IncidentState
from tests.controlplane.diagnosis.always_on.metrics_server import serving
from tests.controlplane.diagnosis.always_on.test_watcher import Engine
from tests.controlplane.diagnosis.always_on.watched_fleet import (
    WatchedFleet,
    replica,
    watched_fleet,
)


@pytest.fixture
def thrashing(tmp_path: Path) -> Iterator[tuple[WatchedFleet, Engine]]:
    """Two deployments that thrash, and nobody has looked yet."""
    with serving() as server, watched_fleet(tmp_path, CACHE) as fleet:
        engine = Engine(server)
        engine.thrash()
        fleet.runs(replica("chat-1", server.address), replica("other-1", server.address, "other"))
        yield fleet, engine


@contextmanager
def lost(database: Database, table: str) -> Iterator[None]:
    """What reads or writes `table` fails as where a file is gone."""
    with database.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE {table} RENAME TO away"))
    yield
    with database.engine.begin() as connection:
        connection.execute(text(f"ALTER TABLE away RENAME TO {table}"))


def errors_of(fleet: WatchedFleet, engine: Engine, seconds: float) -> set[str]:
    """What passes for so long end with."""
    errors = set()
    for _ in range(round(seconds / 5)):
        engine.go_on()
        try:
            fleet.watcher.do_pass()
        except DatabaseLostError as error:
            errors.add(str(error))
        fleet.now_ns += 5 * 10**9
    return errors


def test_while_incidents_cannot_be_kept_every_deployment_is_answered_for(
    thrashing: tuple[WatchedFleet, Engine],
) -> None:
    fleet, engine = thrashing
    fleet.pass_for(60, engine.go_on)
    before = fleet.incidents()
    assert len(before) == 2
    with lost(fleet.config_db, "incidents"):
        [error] = errors_of(fleet, engine, 45)
        assert "config.db did not answer (no such table: incidents)" in error
        assert "`pilothouse db check`" in error
        for name in ("chat", "other"):
            last = fleet.diagnoses.find(name)
            assert last is not None
            assert last.mechanism == "cache.thrash"
            assert fleet.now_ns - last.at_unix_ns <= 25 * 10**9
    fleet.pass_for(30, engine.go_on)
    after = fleet.incidents()
    assert {each.incident_id for each in after} == {each.incident_id for each in before}
    assert {each.num_reopened for each in after} == {0}
    assert all(fleet.now_ns - each.last_seen_at_unix_ns <= 20 * 10**9 for each in after)


def test_an_incident_of_what_runs_no_more_ends_once_the_database_is_back(
    thrashing: tuple[WatchedFleet, Engine],
) -> None:
    fleet, engine = thrashing
    fleet.pass_for(60, engine.go_on)
    fleet.runs()
    fleet.pass_for(50)
    with lost(fleet.config_db, "incidents"), pytest.raises(DatabaseLostError):
        fleet.pass_for(60)
    fleet.pass_for(60)
    assert {each.state for each in fleet.incidents()} == {IncidentState.RESOLVED}


def test_a_database_that_is_lost_is_asked_once_a_pass(
    thrashing: tuple[WatchedFleet, Engine],
) -> None:
    fleet, _ = thrashing
    outages, asked = Outages(), []

    def fail() -> None:
        asked.append(1)
        raise OperationalError("SELECT", {}, ConnectionError("nobody answers"))

    assert not outages.ask(fleet.config_db, fail)
    assert not outages.ask(fleet.config_db, fail)
    assert outages.ask(fleet.config_db, lambda: None, is_writing=True)
    assert outages.ask(fleet.request_db, lambda: None)
    assert asked == [1]
    with pytest.raises(DatabaseLostError, match="nobody answers"):
        outages.end_pass()
    outages.begin_pass()
    with pytest.raises(DatabaseLostError):
        outages.end_pass()
    assert outages.ask(fleet.config_db, lambda: False)
    with pytest.raises(DatabaseLostError):
        outages.end_pass()
    assert outages.ask(fleet.config_db, lambda: None)
    outages.end_pass()
