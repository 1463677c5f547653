"""What is open is counted whole, however much of it there is."""

import pytest
from sqlalchemy.orm import Session

from controlplane.store.database import Database
from controlplane.store.incident import MAX_LISTED_SPELLS, FoundFinding, IncidentState
from controlplane.store.incident_lists import (
    count_open,
    find_incident,
    list_current,
    list_incidents,
)
from controlplane.store.incidents import open_incident, resolve_incident, see_again


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


def _flapping(session: Session, times: int) -> str:
    """Open for 10 ns of every 100, `times` times."""
    known = open_incident(session, "chat", found("cache.thrash"), None, 100).incident_id
    for number in range(1, times):
        resolve_incident(session, known, "over", 100 * number + 10)
        see_again(session, known, found("cache.thrash"), 100 * number + 100)
    return known


@pytest.mark.parametrize("is_open", [True, False])
def test_lists_have_the_last_times_of_one_that_flaps_and_it_alone_has_them_all(
    database: Database, is_open: bool
) -> None:
    times = MAX_LISTED_SPELLS + 10
    with database.session() as session:
        known = _flapping(session, times)
        if not is_open:
            resolve_incident(session, known, "over", 100 * times + 10)
    with database.reading() as session:
        [listed] = list_incidents(session)
        [(current, _)] = list_current(session, "chat", 0)
        whole = find_incident(session, known)
    assert whole is not None
    began = [each.opened_at_unix_ns for each in whole.incident.spells]
    assert began == [100 * number for number in range(1, times + 1)]
    assert listed.spells == current.spells == whole.incident.spells[-MAX_LISTED_SPELLS:]
    assert listed.num_reopened + 1 == times


def test_a_time_that_is_told_to_begin_before_the_last_was_over_begins_then(
    database: Database,
) -> None:
    with database.session() as session:
        known = open_incident(session, "chat", found("cache.thrash"), None, 100).incident_id
        resolve_incident(session, known, "over", 200)
        again = see_again(session, known, found("cache.thrash"), 300, since_unix_ns=150)
        resolve_incident(session, known, "over", 400)
        third = see_again(session, known, found("cache.thrash"), 500, since_unix_ns=450)
    assert again.spells[-1].since_unix_ns == 200
    assert [each.since_unix_ns for each in third.spells] == [None, 200, 450]
