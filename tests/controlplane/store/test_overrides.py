"""Break-glass in the database: made for a time, ended once, audited both times."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from controlplane.store.audit import AuditEvent, AuditFilter, list_events
from controlplane.store.bounded_time import MAX_SECONDS
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.overrides import (
    NewOverride,
    OverrideError,
    StoredOverride,
    UnknownOverrideError,
    add_override,
    end_override,
    end_what_is_over,
    has_what_is_over,
    list_in_force,
    list_overrides,
)
from controlplane.store.replicas import add_replica
from controlplane.store.revisions import apply_documents
from dataplane.engine import ReplicaSpec
from dataplane.policy import OverrideKind
from tests.controlplane.config_documents import DESIGN_POLICY, SERVICE, documents
from tests.databases import Databases

_SECOND = 10**9
_PIN = NewOverride(
    kind=OverrideKind.PIN_POLICY,
    deployment="chat",
    reason="it refuses all",
    seconds=60,
    policy="chat@1",
)
_BYPASS = NewOverride(
    kind=OverrideKind.BYPASS,
    deployment="chat",
    reason="launch day",
    seconds=60,
    request_class="interactive",
)
_REPLICAS = NewOverride(
    kind=OverrideKind.PIN_REPLICAS,
    deployment="chat",
    reason="the others stall",
    seconds=60,
    replica_ids=("chat-a",),
)


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    made = databases.open(DatabaseKind.CONFIG)
    with made.session() as session:
        apply_documents(session, documents(*SERVICE), author="ann", reason="", clock=lambda: 1)
        add_replica(
            session,
            ReplicaSpec(
                replica_id="chat-a",
                deployment="chat",
                model_name="smollm2",
                artifact="",
                engine="paged",
                model_revision="smollm2@1",
                engine_config_revision="paged@1",
            ),
            spec_digest="0" * 64,
            launcher="local",
            reason="",
            now_unix_ns=1,
        )
    yield made
    made.close()


def make(database: Database, wanted: NewOverride, at: int = 100) -> StoredOverride:
    with database.session() as session:
        return add_override(session, wanted, actor="ann", clock=lambda: at * _SECOND)


def in_force(database: Database, at: int) -> list[str]:
    with database.reading() as session:
        return [each.override_id for each in list_in_force(session, at * _SECOND)]


def audited(database: Database) -> list[AuditEvent]:
    with database.reading() as session:
        return list_events(session, AuditFilter(action="override"), limit=100)


@pytest.mark.parametrize("wanted", [_PIN, _BYPASS, _REPLICAS])
def test_it_is_in_force_from_its_making_until_its_time(
    database: Database, wanted: NewOverride
) -> None:
    made = make(database, wanted)
    assert in_force(database, 159) == [made.override_id]
    assert in_force(database, 160) == []
    assert (made.kind, made.replica_ids) == (wanted.kind, wanted.replica_ids)
    assert made.until_unix_ns == 160 * _SECOND


def test_a_pin_names_the_revision_that_it_pins(database: Database) -> None:
    made = make(database, _PIN)
    assert made.policy is not None
    assert made.policy.label == "chat@1"


def test_whoever_ends_one_early_is_named_and_it_is_over_for_good(database: Database) -> None:
    made = make(database, _BYPASS)
    with database.session() as session:
        ended = end_override(
            session, made.override_id, actor="bo", reason="calm again", clock=lambda: 110 * _SECOND
        )
    assert (ended.ended_by, ended.end_reason) == ("bo", "calm again")
    assert ended.ended_at_unix_ns == 110 * _SECOND
    assert in_force(database, 111) == []
    with pytest.raises(OverrideError, match="is over already"), database.session() as session:
        end_override(session, made.override_id, actor="bo", reason="again")
    with pytest.raises(UnknownOverrideError, match="'nobody'"), database.session() as session:
        end_override(session, "nobody", actor="bo", reason="?")


def test_one_that_ends_by_itself_ends_at_its_time_however_late_that_is_noted(
    database: Database,
) -> None:
    made = make(database, _BYPASS)
    with database.reading() as session:
        assert not has_what_is_over(session, 159 * _SECOND)
        assert has_what_is_over(session, 160 * _SECOND)
    with database.session() as session:
        assert end_what_is_over(session, clock=lambda: 500 * _SECOND) == 1
    with database.session() as session:
        assert end_what_is_over(session, clock=lambda: 501 * _SECOND) == 0
        (only,) = list_overrides(session, 10)
    assert only.override_id == made.override_id
    assert (only.ended_at_unix_ns, only.ended_by) == (160 * _SECOND, None)


def test_beginning_and_end_are_audited_with_what_was_before_and_after(database: Database) -> None:
    made = make(database, _PIN)
    with database.session() as session:
        end_override(
            session, made.override_id, actor="bo", reason="over", clock=lambda: 110 * _SECOND
        )
    end, begin = audited(database)
    facts = {
        "kind": "pin_policy",
        "deployment": "chat",
        "policy": "chat@1",
        "until_unix_ns": 160 * _SECOND,
    }
    assert (begin.action, begin.actor, begin.reason) == ("override.create", "ann", "it refuses all")
    assert (begin.before, begin.after) == (None, facts)
    assert (end.action, end.actor, end.before, end.after) == ("override.end", "bo", facts, None)
    assert begin.subject == end.subject == f"override/{made.override_id}"


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (replace(_PIN, deployment="nobody"), "no deployment 'nobody'"),
        (replace(_PIN, policy=None), "policy:"),
        (replace(_PIN, policy="chat"), "pin one revision"),
        (replace(_PIN, policy="chat@7"), "no AdmissionPolicy chat@7"),
        (replace(_PIN, tenant="acme"), "tenant: an override of kind pin_policy has none"),
        (replace(_BYPASS, request_class="nobody"), "has no class 'nobody'; it has interactive"),
        (replace(_BYPASS, tenant="nobody"), "no Tenant 'nobody'"),
        (replace(_REPLICAS, replica_ids=()), "name at least one of chat-a"),
        (replace(_REPLICAS, replica_ids=("chat-a", "x")), "x is no replica of chat now"),
        (replace(_BYPASS, reason=" "), "say why"),
        (replace(_BYPASS, seconds=MAX_SECONDS + 1), "at most 24h"),
        (replace(_BYPASS, seconds=10**9, may_be_longer=True), "30d at most"),
        (replace(_BYPASS, seconds=0.5), "1s at least"),
    ],
)
def test_what_nothing_could_enforce_is_refused_and_nothing_is_left(
    database: Database, wanted: NewOverride, why: str
) -> None:
    with pytest.raises(OverrideError, match=why):
        make(database, wanted)
    assert in_force(database, 101) == []
    assert audited(database) == []


def test_longer_than_a_day_only_where_somebody_says_so(database: Database) -> None:
    made = make(database, replace(_BYPASS, seconds=3 * MAX_SECONDS, may_be_longer=True))
    assert made.until_unix_ns == (100 + 3 * MAX_SECONDS) * _SECOND


def test_the_newest_is_listed_first(database: Database) -> None:
    first, second = make(database, _PIN, at=100), make(database, _BYPASS, at=101)
    assert in_force(database, 102) == [second.override_id, first.override_id]


def test_a_bypass_names_a_class_of_the_policy_that_is_pinned(database: Database) -> None:
    text = DESIGN_POLICY.replace("name: interactive", "name: vip")
    with database.session() as session:
        apply_documents(session, documents(text), author="ann", reason="", clock=lambda: 2)
        with pytest.raises(OverrideError, match="policy chat@2, which is enforced now, has no"):
            add_override(session, _BYPASS, actor="ann", clock=lambda: 5)
        add_override(session, _PIN, actor="ann", clock=lambda: 10)
        add_override(session, _BYPASS, actor="ann", clock=lambda: 20)
        with pytest.raises(
            OverrideError, match="chat@1, which is enforced now, has no class 'vip'"
        ):
            add_override(
                session, replace(_BYPASS, request_class="vip"), actor="ann", clock=lambda: 20
            )


def test_only_a_freeze_is_of_every_deployment(database: Database) -> None:
    everywhere = NewOverride(
        kind=OverrideKind.FREEZE, deployment=None, reason="quarter end", seconds=60
    )
    with database.session() as session:
        made = add_override(session, everywhere, actor="ann", clock=lambda: _SECOND)
        assert [each.override_id for each in list_in_force(session, _SECOND)] == [made.override_id]
        assert list_overrides(session, 10, "any") == [made]
        with pytest.raises(OverrideError, match="deployment"):
            add_override(session, replace(_BYPASS, deployment=None), actor="ann")
