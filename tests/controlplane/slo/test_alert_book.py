"""Alerts become incidents: one for one trouble, whoever tells it and in whatever order."""

import pytest
from sqlalchemy import event

from controlplane.slo.alert import Alert
from controlplane.slo.alert_book import AlertBook
from controlplane.slo.alert_windows import Severity
from controlplane.store.database import Database
from controlplane.store.incident import IncidentState
from controlplane.store.incident_alert import severity_of
from controlplane.store.incidents import resolve_incident
from tests.controlplane.slo.told_alerts import HERE, PROMETHEUS, S, Told, burn, static
from tests.controlplane.store.test_concurrency import at_once

OPEN, RESOLVED = IncidentState.OPEN, IncidentState.RESOLVED


@pytest.fixture
def told(database: Database) -> Told:
    return Told(database)


def test_an_alert_opens_an_incident_of_which_nothing_is_known_but_the_alert(told: Told) -> None:
    [opened] = told.at(130, burn(since=100))
    assert (opened.deployment, opened.mechanism, opened.confidence) == ("chat", None, None)
    assert (opened.state, opened.opened_at_unix_ns, opened.since_unix_ns) == (
        OPEN,
        130 * S,
        100 * S,
    )
    [alert] = opened.alerts
    assert alert.subject == burn(since=100).subject
    assert (alert.last.contract_revision, alert.last.description) == ("chat@7", "20 % missed")
    assert opened.title == "The error budget of chat interactive ttft is burning"


def test_a_page_and_its_tickets_are_one_incident_and_it_ends_with_the_last(told: Told) -> None:
    page, ticket = burn(since=100), burn("ticket_slow", since=900)
    told.at(130, page)
    [both] = told.at(930, page, ticket)
    assert [each.subject.grade for each in both.alerts] == ["page_quick", "ticket_slow"]
    assert severity_of(both.alerts) is Severity.PAGE
    [one] = told.at(2000, burn(since=100, until=1990))
    assert (one.state, severity_of(one.alerts)) == (OPEN, Severity.TICKET)
    [over] = told.at(9000, burn("ticket_slow", since=900, until=8990))
    assert (over.state, over.resolved_at_unix_ns) == (RESOLVED, 9000 * S)
    assert severity_of(over.alerts) is None
    assert told.kinds(over.incident_id) == ["opened", "alerted", "ended", "ended", "resolved"]


def test_what_two_sources_tell_is_one_alert_until_both_say_that_it_ended(told: Told) -> None:
    told.at(130, burn(since=100))
    [both] = told.at(140, burn(since=110, source=HERE))
    [alert] = both.alerts
    assert {each.source for each in alert.tellings} == {HERE, PROMETHEUS}
    assert (alert.started_at_unix_ns, alert.last.source) == (100 * S, HERE)
    [half] = told.at(500, burn(since=100, until=490))
    assert (half.state, half.alerts[0].is_firing) == (OPEN, True)
    [over] = told.at(560, burn(since=110, until=550, source=HERE))
    assert (over.state, over.alerts[0].ended_at_unix_ns) == (RESOLVED, 550 * S)
    assert told.kinds(over.incident_id) == ["opened", "ended", "resolved"]


def test_deployments_and_the_installation_have_their_own(told: Told) -> None:
    found = told.at(130, burn(since=100), burn(since=101, deployment="mail"), static(since=102))
    assert {each.deployment for each in found} == {"chat", "mail", None}


def test_alerts_of_the_installation_are_one_incident_by_name(told: Told) -> None:
    found = told.at(
        130,
        static(since=100),
        static(since=100, instance="127.0.0.1:8702"),
        static("PilothouseRecordsLost", since=100),
    )
    assert sorted(len(each.alerts) for each in found) == [1, 2]


def test_alerts_of_many_processes_are_not_all_read_for_each_of_them(told: Told) -> None:
    read: list[str] = []

    @event.listens_for(told.database.engine, "before_cursor_execute")
    def _note(_c: object, _u: object, statement: str, *_rest: object) -> None:
        if "incident_alerts.incident_id IN" in statement:
            read.append(statement)

    places = [f"127.0.0.1:{port}" for port in range(150)]
    told.book.take([static(since=100, instance=each) for each in places], 130 * S)
    told.book.take([static(since=100, instance=each) for each in places], 190 * S)
    told.book.take([static(since=100, until=290, instance=each) for each in places], 300 * S)
    assert len(read) < 10
    [over] = told.incidents()
    assert (over.state, len(over.alerts)) == (RESOLVED, 150)


def _write_counter(database: Database) -> list[str]:
    """Every statement that changes something, from now on."""
    seen: list[str] = []

    @event.listens_for(database.engine, "before_cursor_execute")
    def _note(_c: object, _u: object, statement: str, *_rest: object) -> None:
        if statement.startswith(("INSERT", "UPDATE", "DELETE")):
            seen.append(statement)

    return seen


def test_what_is_told_again_is_written_again_only_where_it_changed_or_is_due(told: Told) -> None:
    told.at(130, burn(since=100))
    before = told.whole(told.incidents()[0].incident_id)
    written = _write_counter(told.database)
    told.at(140, burn(since=100))
    told.at(150, burn(since=100), burn(since=100))
    assert written == []
    assert told.whole(before.incident.incident_id) == before
    [changed] = told.at(151, burn(since=100, description="40 % missed"))
    assert changed.alerts[0].last.description == "40 % missed"
    [due] = told.at(190, burn(since=100, description="40 % missed"))
    assert due.last_seen_at_unix_ns == due.alerts[0].last.told_at_unix_ns == 190 * S
    assert len(told.whole(due.incident_id).events) == 1


LATE = [
    pytest.param([burn(since=100), burn(since=100, until=200), burn(since=100)], id="overtaken"),
    pytest.param([burn(since=100, until=200), burn(since=100)], id="the end came first"),
    pytest.param(
        [burn(since=100), burn(since=100, until=200), burn(since=100, until=200)], id="twice"
    ),
    pytest.param(
        [burn(since=100), burn(since=100, until=200), burn(since=100, until=230)],
        id="another end",
    ),
]


@pytest.mark.parametrize("tellings", LATE)
def test_late_and_double_tellings_leave_one_incident_that_is_over(
    told: Told, tellings: list[Alert]
) -> None:
    for number, telling in enumerate(tellings):
        told.at(235 + number, telling)
    [over] = told.incidents()
    assert (over.state, over.num_reopened) == (RESOLVED, 0)
    [alert] = over.alerts
    assert (alert.started_at_unix_ns, alert.ended_at_unix_ns) == (100 * S, 200 * S)


def test_the_end_of_an_earlier_time_ends_no_later_one(told: Told) -> None:
    told.at(110, burn(since=100))
    told.at(210, burn(since=100, until=200))
    told.at(310, burn(since=300))
    [still] = told.at(320, burn(since=100, until=200))
    assert (still.state, still.num_reopened) == (OPEN, 1)


def test_an_evaluator_that_was_cut_off_tells_of_the_same_again(told: Told) -> None:
    """Alertmanager tells an end where Prometheus is silent; later the same alert fires on."""
    told.at(110, burn(since=100))
    told.at(410, burn(since=100, until=400))
    [again] = told.at(480, burn(since=100))
    assert (again.state, again.num_reopened, again.alerts[0].num_times) == (OPEN, 1, 2)


def test_what_comes_back_soon_reopens_it_and_later_it_opens_another(told: Told) -> None:
    told.at(110, burn(since=100))
    told.at(210, burn(since=100, until=200))
    [again] = told.at(1010, burn("page_slow", since=1000))
    assert (again.state, again.num_reopened) == (OPEN, 1)
    assert [each.began_at_unix_ns for each in again.spells] == [100 * S, 1000 * S]
    told.at(1110, burn("page_slow", since=1000, until=1100))
    found = told.at(3000, burn(since=2990))
    assert [each.state for each in found] == [OPEN, RESOLVED]


def test_an_alert_of_another_objective_does_not_reopen_it(told: Told) -> None:
    told.at(110, burn(since=100))
    told.at(210, burn(since=100, until=200))
    assert len(told.at(310, burn(since=300, objective="tpot"))) == 2


def test_what_fires_on_reopens_what_somebody_resolved(told: Told) -> None:
    [opened] = told.at(110, burn(since=100))
    with told.database.session() as session:
        resolve_incident(session, opened.incident_id, "a test", 120 * S, "anna")
    [again] = told.at(170, burn(since=100))
    assert (again.incident_id, again.state) == (opened.incident_id, OPEN)


def test_the_end_of_what_somebody_resolved_long_ago_opens_nothing(told: Told) -> None:
    [opened] = told.at(110, burn(since=100))
    with told.database.session() as session:
        resolve_incident(session, opened.incident_id, "a test", 120 * S, "anna")
    [over] = told.at(9000, burn(since=100, until=8990))
    assert (over.state, over.resolved_at_unix_ns) == (RESOLVED, 120 * S)
    assert not over.is_alerting


def test_what_began_and_ended_unheard_is_kept_as_over(told: Told) -> None:
    [over] = told.at(230, burn(since=100, until=200))
    assert (over.state, over.since_unix_ns) == (RESOLVED, 100 * S)


def test_an_end_and_a_beginning_told_together_leave_it_open(told: Told) -> None:
    told.at(110, burn("ticket_quick", since=100))
    [still] = told.at(210, burn("ticket_quick", since=100, until=200), burn(since=205))
    assert (still.state, still.num_reopened) == (OPEN, 0)


def test_what_many_tell_at_once_is_one_incident(database: Database) -> None:
    """Two control planes, each told by its own evaluation and by Alertmanager."""
    books = [AlertBook(database) for _ in range(4)]
    sources = (HERE, PROMETHEUS, HERE, PROMETHEUS)
    alerts = [burn(since=100, source=source) for source in sources]
    at_once(4, lambda number: books[number].take([alerts[number]], 110 * S))
    [opened] = Told(database).incidents()
    [alert] = opened.alerts
    assert {each.source for each in alert.tellings} == {HERE, PROMETHEUS}
    assert alert.num_times == 1


def test_what_alertmanager_never_repeats_is_called_ended(told: Told) -> None:
    """It tells no end of what it was silent about meanwhile: inhibited, or silenced there."""
    told.at(100, burn("ticket_slow", since=90), burn("ticket_quick", since=90, source=HERE))
    told.at(16_000, burn(since=15_990))
    told.book.end_unrepeated(PROMETHEUS, 18_000 * S)
    assert sum(each.is_firing for each in told.incidents()[0].alerts) == 3
    told.book.end_unrepeated(PROMETHEUS, 18_101 * S)
    [still] = told.incidents()
    firing = {each.subject.grade for each in still.alerts if each.is_firing}
    assert (still.state, firing) == (OPEN, {"page_quick", "ticket_quick"})
    assert "not repeated for 5 h" in told.whole(still.incident_id).events[-1].what


def test_an_evaluator_that_begins_is_told_what_it_said_that_fires(told: Told) -> None:
    told.at(110, burn(since=100, source=HERE), burn("ticket_slow", since=100, source=HERE))
    told.at(120, burn("ticket_slow", since=100, until=115, source=HERE), static(since=110))
    [firing] = told.book.firing(HERE)
    assert firing.subject == burn(since=100).subject
