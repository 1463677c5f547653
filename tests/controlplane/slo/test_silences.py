"""Which alerts tell nobody, and for how long."""

from dataclasses import replace

import pytest

from controlplane.slo.alert import AlertSubject
from controlplane.slo.alert_windows import Severity
from controlplane.slo.silences import (
    Silence,
    SilenceKind,
    SilenceScope,
    find_silence,
    is_silenced,
)

PAGE = AlertSubject(
    name="PilothouseBudgetBurn",
    severity=Severity.PAGE,
    grade="page_quick",
    deployment="chat",
    request_class="interactive",
    objective="ttft",
)
OF_CHAT = Silence(
    silence_id="a1",
    kind=SilenceKind.SILENCE,
    scope=SilenceScope(deployment="chat"),
    reason="a new policy is on its way",
    created_by="anna",
    created_at_unix_ns=100,
    from_unix_ns=100,
    until_unix_ns=200,
)


@pytest.mark.parametrize(
    ("scope", "is_covered"),
    [
        (SilenceScope(), True),
        (SilenceScope(deployment="chat"), True),
        (SilenceScope(deployment="summarize"), False),
        (SilenceScope(request_class="interactive", objective="ttft"), True),
        (SilenceScope(request_class="batch"), False),
        (SilenceScope(objective="tpot"), False),
        (SilenceScope(severity=Severity.PAGE), True),
        (SilenceScope(severity=Severity.TICKET), False),
    ],
)
def test_a_scope_covers_what_agrees_with_all_that_it_names(
    scope: SilenceScope, is_covered: bool
) -> None:
    assert scope.covers(PAGE) is is_covered
    assert is_silenced([replace(OF_CHAT, scope=scope)], PAGE, 150) is is_covered


def test_an_alert_without_a_class_is_in_no_scope_that_names_one() -> None:
    no_data = AlertSubject(name="PilothouseNoData", severity=Severity.PAGE, deployment="chat")
    assert not SilenceScope(deployment="chat", request_class="interactive").covers(no_data)
    assert SilenceScope(deployment="chat").covers(no_data)


def test_what_is_of_no_deployment_needs_a_scope_without_one() -> None:
    of_all = AlertSubject(name="PilothouseControlPlaneDown", severity=Severity.PAGE)
    assert not SilenceScope(deployment="chat").covers(of_all)
    assert SilenceScope().covers(of_all)


def test_the_dead_mans_switch_is_never_silenced() -> None:
    watchdog = AlertSubject(name="PilothouseWatchdog", severity=Severity.TICKET)
    assert not is_silenced([replace(OF_CHAT, scope=SilenceScope())], watchdog, 150)


@pytest.mark.parametrize(
    ("at", "is_in_force"), [(99, False), (100, True), (199, True), (200, False)]
)
def test_it_is_in_force_from_its_beginning_until_before_its_end(at: int, is_in_force: bool) -> None:
    assert is_silenced([OF_CHAT], PAGE, at) is is_in_force


def test_ended_early_it_is_over_and_stays_in_force_for_the_time_before() -> None:
    ended = replace(OF_CHAT, ended_at_unix_ns=150, ended_by="bo", end_reason="mended")
    assert [ended.is_in_force(at) for at in (149, 150)] == [True, False]
    assert (ended.over_at_unix_ns, ended.is_over(149), ended.is_over(150)) == (150, False, True)


def test_a_window_that_is_called_off_before_it_began_was_never_in_force() -> None:
    planned = replace(OF_CHAT, kind=SilenceKind.MAINTENANCE, from_unix_ns=120)
    called_off = replace(planned, ended_at_unix_ns=110, ended_by="bo", end_reason="not today")
    assert not any(called_off.is_in_force(at) for at in range(100, 201))


def test_of_several_the_one_that_lasts_longest_is_told() -> None:
    longer = replace(OF_CHAT, silence_id="b2", until_unix_ns=300, scope=SilenceScope())
    assert find_silence([OF_CHAT, longer], PAGE, 150) == longer
    assert find_silence([OF_CHAT, longer], PAGE, 300) is None
