"""Incidents: opened once, deduplicated, grouped, resolved, and reopened when it comes back."""

import pytest
from sqlalchemy import event

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.diagnosis import Diagnosis
from controlplane.diagnosis.incidents import IncidentKeeper
from controlplane.diagnosis.judging import diagnose
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Origin, Reading, Series, SourceKind
from controlplane.diagnosis.rules import BUILT_IN_RULES
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.failed_scrapes import (
    SILENT_KEY,
    FailedScrape,
    told_of_failures,
)
from controlplane.diagnosis.sources.refusals import Refusals, told_of_refusals
from controlplane.diagnosis.window import Window
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.incident import (
    IncidentError,
    IncidentEventKind,
    IncidentState,
    UnknownIncidentError,
)
from controlplane.store.incidents import acknowledge_incident, note_on_incident, resolve_incident
from dataplane.engine_metrics.signal import Signal
from tests.controlplane.diagnosis.looks import Looks
from tests.databases import Databases

_S = 10**9
LIKELY, CERTAIN = Confidence.LIKELY, Confidence.CERTAIN
OVERLOAD, THRASH = Mechanism.QUEUE_OVERLOAD, Mechanism.CACHE_THRASH


@pytest.fixture
def looks(database: Database) -> Looks:
    return Looks(database)


def test_what_is_likely_opens_an_incident_when_it_lasts_and_only_one(looks: Looks) -> None:
    assert looks.look(0, (OVERLOAD, LIKELY)) == []
    assert looks.look(5) == []
    assert looks.look(10, (OVERLOAD, LIKELY)) == []
    [opened] = looks.look(15, (OVERLOAD, LIKELY))
    [again] = looks.look(20, (OVERLOAD, LIKELY))
    assert again.incident_id == opened.incident_id
    assert (again.state, again.mechanism) == (IncidentState.OPEN, "queue.overload")
    assert (again.opened_at_unix_ns, again.last_seen_at_unix_ns) == (15 * _S, 20 * _S)
    [finding] = looks.whole(opened.incident_id).findings
    assert (finding.num_seen, finding.finding["evidence"]) == (2, ["saw queue.overload"])


def test_what_is_certain_opens_at_the_first_look(looks: Looks) -> None:
    [opened] = looks.look(0, (Mechanism.OOM_GRAPH_CAPTURE, CERTAIN))
    assert opened.confidence == "certain"


def test_healthy_and_cannot_tell_open_nothing(looks: Looks) -> None:
    for at in range(0, 30, 5):
        assert looks.look(at, (Mechanism.HEALTHY, CERTAIN)) == []


def test_a_queue_that_gets_shorter_by_itself_wakes_nobody(looks: Looks) -> None:
    for at in (0, 15, 30):
        assert looks.look(at, (Mechanism.QUEUE_BURST_DRAINING, LIKELY)) == []


def test_another_sign_soon_after_is_part_of_the_same_trouble_and_the_surest_names_it(
    looks: Looks,
) -> None:
    looks.look(0, (OVERLOAD, LIKELY))
    [opened] = looks.look(5, (OVERLOAD, LIKELY))
    [grouped] = looks.look(10, (THRASH, CERTAIN), (OVERLOAD, LIKELY))
    assert grouped.incident_id == opened.incident_id
    assert grouped.mechanism == "cache.thrash"
    kinds = [event.kind for event in looks.whole(opened.incident_id).events]
    assert kinds == [IncidentEventKind.OPENED, IncidentEventKind.CHANGED]


def test_another_trouble_much_later_and_that_of_another_deployment_are_incidents_of_their_own(
    looks: Looks,
) -> None:
    looks.look(0, (Mechanism.TELEMETRY_MISSING, CERTAIN))
    assert len(looks.look(2000, (Mechanism.TELEMETRY_MISSING, CERTAIN), (THRASH, CERTAIN))) == 2
    assert len(looks.look(2005, (THRASH, CERTAIN), deployment="batch")) == 3


@pytest.mark.parametrize(
    ("first", "other"),
    [(OVERLOAD, Mechanism.TELEMETRY_STALE), (Mechanism.TELEMETRY_STALE, OVERLOAD)],
)
def test_wrong_figures_and_a_wrong_service_are_two_incidents_and_neither_renames_the_other(
    looks: Looks, first: Mechanism, other: Mechanism
) -> None:
    looks.look(0, (first, LIKELY))
    [before] = looks.look(15, (first, LIKELY))
    later, opened = looks.look(30, (other, CERTAIN))
    assert opened.incident_id == before.incident_id
    assert (opened.mechanism, opened.since_unix_ns) == (first.value, before.since_unix_ns)
    assert opened.last_seen_at_unix_ns == 15 * _S
    assert (later.mechanism, later.opened_at_unix_ns) == (other.value, 30 * _S)


def test_what_is_found_after_a_trouble_was_no_longer_seen_is_another_one(looks: Looks) -> None:
    looks.look(0, (OVERLOAD, LIKELY))
    looks.look(15, (OVERLOAD, LIKELY))
    assert len(looks.look(50, (THRASH, CERTAIN))) == 1
    assert len(looks.look(100, (Mechanism.OOM_DECODE_GROWTH, CERTAIN))) == 2


def test_it_is_resolved_when_nobody_sees_it_any_more_and_reopened_when_it_comes_back(
    looks: Looks,
) -> None:
    looks.look(0, (THRASH, CERTAIN))
    [unseen] = looks.look(59)
    assert unseen.state is IncidentState.OPEN
    [resolved] = looks.look(60)
    assert (resolved.state, resolved.resolved_at_unix_ns) == (IncidentState.RESOLVED, 60 * _S)
    [reopened] = looks.look(300, (THRASH, CERTAIN))
    assert (reopened.state, reopened.num_reopened) == (IncidentState.OPEN, 1)
    assert reopened.resolved_at_unix_ns is None
    looks.look(400)
    assert len(looks.look(400 + 1801, (THRASH, CERTAIN))) == 2


def test_each_time_that_it_is_open_is_kept_and_not_what_lies_between(looks: Looks) -> None:
    looks.look(0, (THRASH, CERTAIN))
    looks.look(60)
    looks.look(300, (THRASH, CERTAIN))
    looks.look(360)
    [again] = looks.look(500, (THRASH, CERTAIN))
    times = [(each.opened_at_unix_ns, each.resolved_at_unix_ns) for each in again.spells]
    assert times == [(0, 60 * _S), (300 * _S, 360 * _S), (500 * _S, None)]
    assert looks.whole(again.incident_id).incident == again


def test_since_when_it_is_back_is_not_since_when_it_was_there_before(
    looks: Looks, database: Database
) -> None:
    keeper = IncidentKeeper(database)
    keeper.take("chat", _gone_since(10, until=31), 31 * _S)
    looks.look(95)
    keeper.take("chat", _gone_since(200, until=231), 231 * _S)
    [gone] = looks.incidents()
    assert [each.since_unix_ns for each in gone.spells] == [10 * _S, 200 * _S]
    assert gone.since_unix_ns == 10 * _S
    with database.session() as session:
        resolve_incident(session, gone.incident_id, "it is over", 232 * _S, actor="ann")
    keeper.take("chat", _gone_since(200, until=235), 235 * _S)
    [unseen] = looks.incidents()
    assert unseen.spells[-1].since_unix_ns is None


def test_what_is_reopened_is_called_by_what_is_seen_now(looks: Looks) -> None:
    looks.look(0, (THRASH, CERTAIN), (OVERLOAD, CERTAIN))
    looks.look(60)
    looks.look(300, (OVERLOAD, LIKELY))
    [reopened] = looks.look(305, (OVERLOAD, LIKELY))
    assert (reopened.state, reopened.num_reopened) == (IncidentState.OPEN, 1)
    assert (reopened.mechanism, reopened.confidence) == ("queue.overload", "likely")


def test_a_look_that_saw_nothing_of_the_engine_ends_nothing(
    looks: Looks, database: Database
) -> None:
    looks.look(0, (THRASH, CERTAIN))
    blind = diagnose(Window(start=0, end=500), [])
    IncidentKeeper(database).take("chat", blind, 500 * _S)
    [still] = looks.incidents()
    assert still.state is IncidentState.OPEN


def test_an_engine_that_is_gone_ends_no_incident(looks: Looks, database: Database) -> None:
    looks.look(0, (THRASH, CERTAIN))
    failed = [FailedScrape(60.0, "a", "ConnectError: All connection attempts failed")]
    silent = facts_of({SILENT_KEY: {"a": 30}}, 90.0, is_observed=True)
    facts = (*told_of_failures(failed, 3)[0], *silent)
    origin = Origin(kind=SourceKind.GATEWAY, name="gateways: in flight")
    waits = Series(
        signal=Signal.GATEWAY_IN_FLIGHT, origin=origin, readings=(Reading(90.0, 1.0, "1"),)
    )
    gone = diagnose(Window(start=0, end=90, facts=facts, series=(waits,)), [])
    IncidentKeeper(database).take("chat", gone, 90 * _S)
    [still] = looks.incidents()
    assert still.state is IncidentState.OPEN


def test_of_engines_that_are_all_gone_a_hang_has_ended_and_nothing_else(
    looks: Looks, database: Database
) -> None:
    looks.look(0, (THRASH, CERTAIN))
    looks.look(5, (Mechanism.ENGINE_HUNG, CERTAIN), (THRASH, CERTAIN))
    keeper = IncidentKeeper(database)
    keeper.take("chat", _gone_since(10, until=25), 25 * _S)
    hung = [each for each in looks.incidents() if each.mechanism == "engine.hung"]
    assert [each.state for each in hung] == [IncidentState.OPEN], "it may be a restart"
    keeper.take("chat", _gone_since(10, until=31), 31 * _S)
    assert {each.mechanism: each.state for each in looks.incidents()} == {
        "cache.thrash": IncidentState.OPEN,
        "engine.hung": IncidentState.RESOLVED,
        "engine.gone": IncidentState.OPEN,
    }
    (opened,) = [each for each in looks.incidents() if each.mechanism == "engine.gone"]
    assert opened.since_unix_ns == 10 * _S


def _gone_since(since: float, *, until: float) -> Diagnosis:
    """Of the one replica that there is."""
    shut = Refusals().after_answer()
    for at in (since, (since + until) / 2, until):
        shut = shut.after_refusal(at)
    failed = told_of_failures([FailedScrape(until, "a", "refused")], 9)[0]
    window = Window(start=0, end=until, facts=(*failed, *told_of_refusals({"a": shut})))
    return diagnose(window, BUILT_IN_RULES)


def test_somebody_looks_after_it_once_and_says_so(looks: Looks, database: Database) -> None:
    [opened] = looks.look(0, (THRASH, CERTAIN))
    with database.session() as session:
        acknowledge_incident(session, opened.incident_id, "ann", "on it", 3 * _S)
        note_on_incident(session, opened.incident_id, "ann", "fewer seats applied", 4 * _S)
    with pytest.raises(IncidentError, match="ann looks after"), database.session() as session:
        acknowledge_incident(session, opened.incident_id, "bob", "me too", 5 * _S)
    events = looks.whole(opened.incident_id).events
    assert [(each.kind.value, each.actor, each.what) for each in events[1:]] == [
        ("acknowledged", "ann", "on it"),
        ("note", "ann", "fewer seats applied"),
    ]
    [reopened] = [looks.look(60), looks.look(70, (THRASH, CERTAIN))][1]
    assert reopened.acknowledged_by is None


def test_an_unknown_or_resolved_incident_is_refused_with_the_reason(
    looks: Looks, database: Database
) -> None:
    with (
        pytest.raises(UnknownIncidentError, match="no incident 'x'"),
        database.session() as session,
    ):
        resolve_incident(session, "x", "gone", 1)
    [opened] = looks.look(0, (THRASH, CERTAIN))
    with database.session() as session:
        resolve_incident(session, opened.incident_id, "a false alarm", 1, actor="ann")
    with pytest.raises(IncidentError, match="resolved already"), database.session() as session:
        resolve_incident(session, opened.incident_id, "again", 2)


def test_what_another_control_plane_opened_meanwhile_is_not_opened_again(
    databases: Databases, database: Database
) -> None:
    """It looked at the same trouble after this one had read what there is, and before it wrote."""
    second = databases.open(DatabaseKind.CONFIG)
    ours, theirs = Looks(second), Looks(database)
    num_connections = 0

    def meanwhile(_connection: object) -> None:
        nonlocal num_connections
        num_connections += 1
        if num_connections == 2:
            theirs.look(0, (THRASH, CERTAIN))

    event.listen(second.engine, "engine_connect", meanwhile)
    try:
        ours.look(1, (THRASH, CERTAIN))
    finally:
        second.close()
    [incident] = theirs.incidents()
    [finding] = theirs.whole(incident.incident_id).findings
    assert num_connections > 2
    assert finding.num_seen == 2
