"""Silences and maintenance windows in the database: for a time, ended once, audited, kept."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controlplane.slo.alert_windows import Severity
from controlplane.slo.silences import Silence, SilenceKind, SilenceScope
from controlplane.store.audit import AuditEvent, AuditFilter, list_events
from controlplane.store.bounded_time import MAX_SECONDS
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.revisions import apply_documents
from controlplane.store.silences import (
    MAX_AHEAD_SECONDS,
    NewSilence,
    SilenceError,
    UnknownSilenceError,
    add_silence,
    end_silence,
    list_in_force,
    list_not_over,
    list_silences,
    list_touching,
    plan_silence,
)
from tests.controlplane.config_documents import SERVICE, documents
from tests.databases import Databases

_S = 10**9
_SILENCE = NewSilence(
    kind=SilenceKind.SILENCE,
    scope=SilenceScope(deployment="chat"),
    reason="a new policy is on its way",
    seconds=60,
)
_MAINTENANCE = NewSilence(
    kind=SilenceKind.MAINTENANCE,
    scope=SilenceScope(
        deployment="chat",
        request_class="interactive",
        objective="ttft",
        severity=Severity.TICKET,
    ),
    reason="new disks",
    seconds=60,
    from_unix_ns=200 * _S,
)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.CONFIG)
    with made.session() as session:
        apply_documents(session, documents(*SERVICE), author="ann", reason="", clock=lambda: 1)
    yield made
    made.close()


def make(database: Database, wanted: NewSilence, at: int = 100) -> Silence:
    with database.session() as session:
        return add_silence(session, wanted, actor="ann", clock=lambda: at * _S)


def end(database: Database, silence_id: str, at: int, reason: str = "mended") -> Silence:
    with database.session() as session:
        return end_silence(session, silence_id, actor="bo", reason=reason, clock=lambda: at * _S)


def in_force(database: Database, at: int) -> list[str]:
    with database.reading() as session:
        return [each.silence_id for each in list_in_force(session, at * _S)]


def audited(database: Database) -> list[AuditEvent]:
    with database.reading() as session:
        return list_events(session, AuditFilter(action="silence"), limit=100)


@pytest.mark.parametrize("wanted", [_SILENCE, _MAINTENANCE])
def test_it_is_read_as_it_was_made(database: Database, wanted: NewSilence) -> None:
    made = make(database, wanted)
    with database.reading() as session:
        (read,) = list_silences(session, 10)
    assert read == made
    assert (read.kind, read.scope, read.reason) == (wanted.kind, wanted.scope, wanted.reason)


def test_a_silence_is_in_force_at_once_and_maintenance_from_when_it_is_planned_for(
    database: Database,
) -> None:
    silence, planned = make(database, _SILENCE), make(database, _MAINTENANCE)
    assert in_force(database, 159) == [silence.silence_id]
    assert in_force(database, 160) == []
    assert in_force(database, 200) == [planned.silence_id]
    assert in_force(database, 260) == []
    with database.reading() as session:
        not_over = [each.silence_id for each in list_not_over(session, 170 * _S)]
    assert not_over == [planned.silence_id]


def test_maintenance_may_begin_at_once(database: Database) -> None:
    made = make(database, replace(_MAINTENANCE, from_unix_ns=None))
    assert (made.from_unix_ns, made.until_unix_ns) == (100 * _S, 160 * _S)


def test_whoever_ends_one_early_is_named_and_it_stays_for_the_record(database: Database) -> None:
    made = make(database, _SILENCE)
    ended = end(database, made.silence_id, at=110)
    assert (ended.ended_by, ended.end_reason, ended.over_at_unix_ns) == ("bo", "mended", 110 * _S)
    assert in_force(database, 111) == []
    with database.reading() as session:
        assert list_silences(session, 10) == [ended]
    with pytest.raises(SilenceError, match="is over already"):
        end(database, made.silence_id, at=112)
    with pytest.raises(UnknownSilenceError, match="'nobody'"):
        end(database, "nobody", at=112)


def test_one_that_nobody_ends_is_over_at_its_time_and_cannot_be_ended(database: Database) -> None:
    made = make(database, _SILENCE)
    with pytest.raises(SilenceError, match="is over already"):
        end(database, made.silence_id, at=160)


def test_beginning_and_early_end_are_audited_with_what_was_before_and_after(
    database: Database,
) -> None:
    made = make(database, _MAINTENANCE)
    end(database, made.silence_id, at=110, reason="not today")
    over, begun = audited(database)
    facts = {
        "kind": "maintenance",
        "deployment": "chat",
        "request_class": "interactive",
        "objective": "ttft",
        "severity": "ticket",
        "from_unix_ns": 200 * _S,
        "until_unix_ns": 260 * _S,
    }
    assert (begun.action, begun.actor, begun.reason) == ("silence.create", "ann", "new disks")
    assert (begun.before, begun.after) == (None, facts)
    assert (over.action, over.actor, over.reason) == ("silence.end", "bo", "not today")
    assert (over.before, over.after) == (facts, None)
    assert begun.subject == over.subject == f"silence/{made.silence_id}"


def test_a_plan_writes_nothing(database: Database) -> None:
    with database.session() as session:
        planned = plan_silence(session, _SILENCE, actor="ann", clock=lambda: 100 * _S)
    assert planned.until_unix_ns == 160 * _S
    assert in_force(database, 101) == []
    assert audited(database) == []


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (replace(_SILENCE, scope=SilenceScope(deployment="nobody")), "'nobody'; there are chat"),
        (
            replace(_SILENCE, scope=SilenceScope(deployment="chat", request_class="vip")),
            "request_class: there is no 'vip'; the contract has interactive",
        ),
        (
            replace(_SILENCE, scope=SilenceScope(deployment="chat", objective="chunk_gap")),
            "objective: there is no 'chunk_gap'; the contract has availability",
        ),
        (replace(_SILENCE, scope=SilenceScope()), "every deployment"),
        (replace(_SILENCE, is_of_everything=True), "not both"),
        (replace(_SILENCE, reason=" "), "say why"),
        (replace(_SILENCE, seconds=MAX_SECONDS + 1), "at most 24h"),
        (replace(_SILENCE, seconds=10**9, may_be_longer=True), "30d at most"),
        (replace(_SILENCE, seconds=0.5), "1s at least"),
        (replace(_SILENCE, from_unix_ns=200 * _S), "begins at once"),
        (replace(_MAINTENANCE, from_unix_ns=99 * _S), "this is past"),
        (replace(_MAINTENANCE, from_unix_ns=(101 + MAX_AHEAD_SECONDS) * _S), "90d ahead"),
    ],
)
def test_what_would_silence_nothing_or_has_no_end_is_refused_and_nothing_is_left(
    database: Database, wanted: NewSilence, why: str
) -> None:
    with pytest.raises(SilenceError, match=why):
        make(database, wanted)
    with database.reading() as session:
        assert list_silences(session, 10) == []
    assert audited(database) == []


def test_everything_is_silenced_where_somebody_says_so(database: Database) -> None:
    made = make(database, replace(_SILENCE, scope=SilenceScope(), is_of_everything=True))
    assert made.scope == SilenceScope()


def test_those_of_a_time_are_found_also_when_they_are_over(database: Database) -> None:
    silence, planned = make(database, _SILENCE), make(database, _MAINTENANCE)
    called_off = make(database, replace(_MAINTENANCE, from_unix_ns=210 * _S))
    end(database, called_off.silence_id, at=120)

    def touching(first: int, last: int, kind: SilenceKind | None = None) -> list[str]:
        with database.reading() as session:
            found = list_touching(session, first * _S, last * _S, kind)
        return [each.silence_id for each in found]

    assert set(touching(0, 1000)) == {silence.silence_id, planned.silence_id}
    assert touching(0, 1000, SilenceKind.MAINTENANCE) == [planned.silence_id]
    assert touching(161, 200) == []
    assert touching(230, 240) == [planned.silence_id]
