"""What is open is counted whole, however much of it there is."""

from collections.abc import Iterator

import pytest

from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.incident_lists import count_open, list_incidents
from controlplane.store.incidents import (
    FoundFinding,
    IncidentState,
    open_incident,
    resolve_incident,
)
from tests.databases import Databases


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.CONFIG)
    yield made
    made.close()


def found(mechanism: str) -> list[FoundFinding]:
    return [FoundFinding(rule_id=mechanism, mechanism=mechanism, confidence="certain", finding={})]


def test_all_that_is_open_is_counted_and_listed_and_nothing_else(database: Database) -> None:
    with database.session() as session:
        for number in range(101):  # one more than a page of the list
            open_incident(session, "chat", found("cache.thrash"), None, number)
        open_incident(session, "chat", found("queue.overload"), None, 500)
        gone = open_incident(session, "mail", found("queue.overload"), None, 501)
        resolve_incident(session, gone.incident_id, "over", 502)
    with database.reading() as session:
        counts = count_open(session)
        listed = list_incidents(session, state=IncidentState.OPEN, limit=None)
    assert counts == {("chat", "cache.thrash"): 101, ("chat", "queue.overload"): 1}
    assert len(listed) == 102
