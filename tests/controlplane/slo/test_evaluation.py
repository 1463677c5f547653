"""Alerts of the control plane's own: the same as Prometheus', beginning once, ending once."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from controlplane.hooks import StrayKind, StrayProcess
from controlplane.operator.stray import Stray, StrayJudgement
from controlplane.slo.alert import Alert, AlertSource, AlertSubject
from controlplane.slo.alert_windows import BURN_WINDOWS, HOUR, Severity
from controlplane.slo.evaluation import AlertCourse, alerts_of
from controlplane.slo.event_counts import NO_EVENTS, EventCounts
from controlplane.slo.operator_alerts import crash_loop_alerts, stray_alerts
from controlplane.slo.prometheus.burning import burning_groups
from controlplane.slo.prometheus.links import Links
from controlplane.slo.prometheus.rules import AlertRule
from controlplane.slo.prometheus.static_alerts import STATIC_ALERTS
from controlplane.slo.promised import Promise, promises_of
from controlplane.slo.standing import Standing, standing_of
from dataplane import names
from tests.controlplane.slo.burning_alert import burning
from tests.controlplane.slo.prometheus.promtool import contract

LINKS = Links(console_url="http://console")
NOW = 1_790_000_000 * 10**9


def _promise() -> Promise:
    objectives = [{"signal": "ttft", "at_most": "300ms", "for": "99%"}]
    spec = contract(objectives, alerting={"team": "chat-oncall"})
    return next(promises_of("chat", "chat@7", spec))


def _standing(windows: Mapping[int, EventCounts], *, is_seen: bool = True) -> Standing:
    budget = windows.get(BURN_WINDOWS[-1], NO_EVENTS)
    return standing_of(_promise(), windows, budget, is_seen=is_seen)


def _bad(share: float) -> dict[int, EventCounts]:
    good = round(1000 * (1 - share))
    return {seconds: EventCounts(good=good, total=1000) for seconds in BURN_WINDOWS}


def test_an_alert_is_about_the_same_as_that_of_the_rules() -> None:
    found = alerts_of([_standing(_bad(0.2))], (), LINKS, NOW)
    rules = [
        rule
        for group in burning_groups([_promise()], LINKS).groups
        for rule in group.rules
        if isinstance(rule, AlertRule)
    ]
    of_rules = {
        AlertSubject(
            name=rule.alert,
            severity=Severity(rule.labels[names.LABEL_SEVERITY]),
            grade=rule.labels[names.LABEL_GRADE],
            deployment=rule.labels[names.LABEL_DEPLOYMENT],
            request_class=rule.labels[names.LABEL_REQUEST_CLASS],
            objective=rule.labels[names.LABEL_OBJECTIVE],
        ).fingerprint
        for rule in rules
    }
    assert {each.subject.fingerprint for each in found} == of_rules
    assert found[0].contract_revision == "chat@7"
    assert found[0].runbook_url == rules[0].annotations["runbook_url"]
    assert {each.team for each in found} == {each.labels[names.LABEL_TEAM] for each in rules}


@pytest.mark.parametrize(
    ("share", "grades"),
    [
        (0.009, []),
        (0.02, ["ticket_slow"]),
        (0.061, ["page_slow", "ticket_quick", "ticket_slow"]),
        (0.2, ["page_quick", "page_slow", "ticket_quick", "ticket_slow"]),
    ],
)
def test_each_grade_fires_from_its_factor_on(share: float, grades: list[str]) -> None:
    found = alerts_of([_standing(_bad(share))], (), LINKS, NOW)
    assert [each.subject.grade for each in found] == grades


def test_who_is_not_seen_burns_nothing_and_is_an_alert_of_its_own() -> None:
    (found,) = alerts_of([_standing(_bad(1.0), is_seen=False)], ["chat"], LINKS, NOW)
    assert found.subject.grade is None
    assert found.subject.severity is Severity.PAGE
    assert (found.subject.deployment, found.team) == ("chat", "chat-oncall")


def _always(_: AlertSubject) -> bool:
    return True


def test_an_alert_goes_on_since_it_began_and_its_end_is_told_until_it_is_taken() -> None:
    course, page = AlertCourse(), burning(started_at_unix_ns=NOW)
    course.take([page], _always, NOW)
    later = replace(page, started_at_unix_ns=NOW + HOUR, description="more by now")
    (going_on,) = course.take([later], _always, NOW + HOUR).firing
    assert going_on == replace(later, started_at_unix_ns=NOW)
    ended = course.take([], _always, NOW + 2 * HOUR).ended
    assert [each.ended_at_unix_ns for each in ended] == [NOW + 2 * HOUR]
    again = course.take([], _always, NOW + 3 * HOUR).ended
    assert again == ended
    course.note_taken(again)
    assert course.take([], _always, NOW + 4 * HOUR).ended == ()


def test_what_fired_before_a_restart_is_no_news_and_does_not_end_unseen() -> None:
    before = burning(started_at_unix_ns=NOW - HOUR)
    course = AlertCourse([before])
    held = course.take([], lambda _: False, NOW)
    assert held.firing == (before,)
    assert held.ended == ()
    (ended,) = course.take([], _always, NOW + 1).ended
    assert ended == replace(before, ended_at_unix_ns=NOW + 1)


def test_one_that_begins_again_before_its_end_was_taken_has_not_ended() -> None:
    course, page = AlertCourse(), burning(started_at_unix_ns=NOW)
    course.take([page], _always, NOW)
    course.take([], _always, NOW + 1)
    found = course.take([replace(page, started_at_unix_ns=NOW + 2)], _always, NOW + 2)
    assert found.ended == ()
    assert [each.started_at_unix_ns for each in found.firing] == [NOW + 2]


def _source(alert: Alert) -> AlertSource:
    return alert.source


def test_the_control_plane_says_that_it_was_itself() -> None:
    found = alerts_of([_standing(_bad(0.2))], ["batch"], LINKS, NOW)
    assert set(map(_source, found)) == {AlertSource.CONTROL_PLANE}


def test_a_crash_loop_and_a_lasting_stray_are_the_alerts_that_prometheus_makes_of_them() -> None:
    failures = {"batch": 2, "chat": 3}
    (loop,) = crash_loop_alerts(failures, {"chat": "next start in 4 s"}, {}, LINKS, NOW)
    assert (loop.subject.name, loop.subject.deployment) == ("PilothouseReplicaCrashLoop", "chat")
    assert "next start in 4 s" in loop.description
    (stray,) = stray_alerts([_stray(seconds=61), _stray(seconds=10)], LINKS, NOW)
    assert (stray.subject.name, stray.subject.deployment) == ("PilothouseStrayProcess", None)
    assert "pid 61" in stray.description
    assert "pid 10" not in stray.description
    of_rules = {each.name: each.severity for each in STATIC_ALERTS}
    for each in (loop, stray):
        assert of_rules[each.subject.name] is each.subject.severity
    gone = replace(_stray(seconds=90), ended_at_unix_ns=NOW)
    assert stray_alerts([gone], LINKS, NOW) == []


def _stray(seconds: int) -> Stray:
    process = StrayProcess(
        stray_id=f"remains-{seconds}.1", kind=StrayKind.REMAINS, pid=seconds, replica_id="chat-1",
        fencing_token=1, command="python", ports=(), resident_bytes=1, device_bytes=None,
    )  # fmt: skip
    return Stray(
        stray_id=process.stray_id, kind=StrayJudgement.ZOMBIE, launcher="local", process=process,
        why="its replica ended", found_at_unix_ns=NOW - seconds * 10**9, seen_at_unix_ns=NOW,
    )  # fmt: skip
