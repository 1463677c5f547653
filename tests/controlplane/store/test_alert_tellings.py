"""One alert over several incidents: it fires in one of them, and its source is known by what it
told last."""

import pytest

from controlplane.store.database import Database
from controlplane.store.incident import IncidentState
from controlplane.store.incidents import resolve_incident
from tests.controlplane.slo.told_alerts import S, Told, burn


@pytest.fixture
def told(database: Database) -> Told:
    return Told(database)


def test_what_fires_again_in_an_older_incident_began_once(told: Told) -> None:
    ttft, e2e = burn(since=100), burn(since=100, objective="e2e")
    [older] = told.at(110, ttft, e2e)
    told.at(210, burn(since=100, until=200), burn(since=100, until=200, objective="e2e"))
    told.at(310, burn(since=300, objective="tpot"))
    told.at(320, burn(since=305))
    told.at(410, burn(since=305, until=400), burn(since=300, until=400, objective="tpot"))
    told.at(510, burn(since=500, objective="e2e"))
    told.at(520, burn(since=505))
    told.at(560, burn(since=505))
    [again] = [each for each in told.incidents() if each.incident_id == older.incident_id]
    assert again.state is IncidentState.OPEN
    num_times = {each.subject.objective: each.num_times for each in again.alerts}
    assert num_times == {"ttft": 2, "e2e": 2}


def test_an_incident_that_was_resolved_by_hand_leaves_the_alert_to_the_next(told: Told) -> None:
    """Alertmanager repeats what fires every four hours, long after the old one may reopen."""
    [resolved] = told.at(110, burn(since=100))
    with told.database.session() as session:
        resolve_incident(session, resolved.incident_id, "a test", 120 * S, "anna")
    newest, older = told.at(14_500, burn(since=100))
    assert older.incident_id == resolved.incident_id
    assert [each.is_firing for each in newest.alerts] == [True]
    assert [each.ended_at_unix_ns for each in older.alerts] == [14_500 * S]
