"""What alerts tell and what diagnosis finds of one trouble is one incident."""

import pytest

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.store.database import Database
from controlplane.store.incident import IncidentState
from tests.controlplane.diagnosis.looks import Looks
from tests.controlplane.slo.told_alerts import Told, burn

CERTAIN = Confidence.CERTAIN
OVERLOAD, THRASH = Mechanism.QUEUE_OVERLOAD, Mechanism.CACHE_THRASH
OPEN, RESOLVED = IncidentState.OPEN, IncidentState.RESOLVED


@pytest.fixture
def told(database: Database) -> Told:
    return Told(database)


@pytest.fixture
def looks(database: Database) -> Looks:
    return Looks(database)


def test_the_first_finding_says_what_alerts_told_of(told: Told, looks: Looks) -> None:
    [alerted] = told.at(130, burn(since=100))
    [found] = looks.look(1200, (Mechanism.ENGINE_HUNG, CERTAIN))
    assert found.incident_id == alerted.incident_id
    assert (found.mechanism, found.confidence) == ("engine.hung", "certain")
    assert told.kinds(found.incident_id) == ["opened", "found"]


def test_what_is_wrong_with_figures_is_no_part_of_what_callers_get(
    told: Told, looks: Looks
) -> None:
    told.at(130, burn(since=100))
    assert len(looks.look(140, (Mechanism.TELEMETRY_STALE, CERTAIN))) == 2


def test_an_alert_joins_what_diagnosis_found_while_it_looks_back(told: Told, looks: Looks) -> None:
    looks.look(0, (OVERLOAD, CERTAIN))
    looks.look(1800, (OVERLOAD, CERTAIN))
    [both] = told.at(1830, burn(since=1820))
    assert (both.mechanism, len(both.alerts)) == ("queue.overload", 1)


@pytest.mark.parametrize(
    ("mechanism", "opened", "seen"),
    [
        pytest.param(OVERLOAD, 0, 3590, id="opened before it looks back"),
        pytest.param(OVERLOAD, 3500, 3500, id="not seen of late"),
        pytest.param(Mechanism.TELEMETRY_STALE, 3500, 3590, id="of figures"),
    ],
)
def test_an_alert_joins_nothing_else(
    told: Told, looks: Looks, mechanism: Mechanism, opened: int, seen: int
) -> None:
    looks.look(opened, (mechanism, CERTAIN))
    looks.look(seen, (mechanism, CERTAIN))
    assert len(told.at(3620, burn(since=3610))) == 2


def test_it_is_over_when_nothing_is_found_any_more_and_no_alert_fires(
    told: Told, looks: Looks
) -> None:
    looks.look(0, (THRASH, CERTAIN))
    told.at(30, burn(since=20))
    [fires] = looks.look(200)
    assert fires.state is OPEN
    [ended] = told.at(300, burn(since=20, until=290))
    assert ended.state is OPEN
    [seen] = looks.look(320, (THRASH, CERTAIN))
    assert seen.state is OPEN
    [over] = looks.look(400)
    assert (over.state, over.incident_id) == (RESOLVED, fires.incident_id)


def test_what_alerts_alone_tell_of_is_over_by_their_word(told: Told, looks: Looks) -> None:
    told.at(130, burn(since=100))
    [fires] = looks.look(1000)
    assert fires.state is OPEN
    [over] = told.at(1010, burn(since=100, until=1005))
    assert over.state is RESOLVED


def test_one_that_an_alert_reopens_is_of_no_mechanism_until_it_is_found_again(
    told: Told, looks: Looks
) -> None:
    looks.look(0, (THRASH, CERTAIN))
    told.at(30, burn(since=20))
    told.at(50, burn(since=20, until=40))
    looks.look(120)
    [again] = told.at(310, burn(since=300))
    assert (again.state, again.mechanism) == (OPEN, None)
    [over] = told.at(330, burn(since=300, until=320))
    assert over.state is RESOLVED
    told.at(410, burn(since=400))
    [found] = looks.look(420, (THRASH, CERTAIN))
    assert (found.state, found.mechanism, found.num_reopened) == (OPEN, "cache.thrash", 2)


def test_a_finding_of_another_incident_that_ended_belongs_to_the_one_that_alerts_tell_of(
    told: Told, looks: Looks
) -> None:
    looks.look(0, (THRASH, CERTAIN))
    looks.look(100)
    [alerted, _] = told.at(130, burn(since=120))
    found = looks.look(140, (THRASH, CERTAIN))
    assert [each.state for each in found] == [OPEN, RESOLVED]
    assert (found[0].incident_id, found[0].mechanism) == (alerted.incident_id, "cache.thrash")
