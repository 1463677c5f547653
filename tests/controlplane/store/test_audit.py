"""Every change leaves a line, and no line is ever changed."""

from collections.abc import Iterator

import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.exc import DBAPIError

from controlplane.store.access_grants import AccessError
from controlplane.store.access_keys import add_key, list_keys, revoke_key
from controlplane.store.access_tables import AuditRow
from controlplane.store.audit import AuditFilter, list_events, record_change
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database
from controlplane.store.users import has_admin
from dataplane.access import Role
from tests.databases import Databases


@pytest.fixture
def database(databases: Databases) -> Iterator[Database]:
    opened = databases.open(DatabaseKind.CONFIG)
    yield opened
    opened.close()


def note(database: Database, number: int, **fields: str) -> None:
    said = {"actor": "ana", "action": "config.update", "subject": "Deployment/chat"} | fields
    with database.session() as session:
        record_change(
            session, **said, before={"replicas": number}, after={"replicas": number + 1},
            clock=lambda: number * 10**9,
        )  # fmt: skip


def found(database: Database, **fields: str | int) -> list[int]:
    with database.reading() as session:
        events = list_events(session, AuditFilter(**fields), limit=100)  # type: ignore[arg-type]
    return [event.at_unix_ns // 10**9 for event in events]


def test_events_are_listed_newest_first_and_by_what_they_are_about(database: Database) -> None:
    note(database, 1)
    note(database, 2, actor="bo", subject="Deployment/chat-2")
    note(database, 3, action="key.create", subject="key/ci")
    note(database, 4, action="configure.x", subject="DeploymentX/chat")

    assert found(database) == [4, 3, 2, 1]
    assert found(database, actor="bo") == [2]
    assert found(database, action="config") == [2, 1]
    assert found(database, action="config.update") == [2, 1]
    assert found(database, subject="Deployment") == [2, 1]
    assert found(database, subject="Deployment/chat") == [1]
    assert found(database, subject="%") == []
    assert found(database, since_unix_ns=2 * 10**9, until_unix_ns=4 * 10**9) == [3, 2]


def test_pages_follow_each_other(database: Database) -> None:
    for number in range(5):
        note(database, number)
    with database.reading() as session:
        first = list_events(session, AuditFilter(), limit=3)
        second = list_events(session, AuditFilter(), limit=3, before_id=first[-1].id)

    assert [event.at_unix_ns // 10**9 for event in first + second] == [4, 3, 2, 1, 0]


def test_the_database_itself_refuses_to_change_or_delete_a_line(database: Database) -> None:
    note(database, 1)

    for statement in (
        update(AuditRow).values(actor="somebody else"),
        delete(AuditRow),
        text("DELETE FROM audit_events WHERE id = 1"),
    ):
        with pytest.raises(DBAPIError, match="never changed"), database.session() as session:
            session.execute(statement)

    if database.engine.dialect.name == "sqlite":
        replacing = text(
            "INSERT OR REPLACE INTO audit_events SELECT id, at_unix_ns, 'mallory', "
            "action, subject, reason, before, after FROM audit_events"
        )
        with pytest.raises(DBAPIError, match="never changed"), database.session() as session:
            session.execute(replacing)

    assert found(database, actor="ana") == [1]


def test_a_change_that_is_taken_back_leaves_no_line(database: Database) -> None:
    with database.session() as session:
        attempt = session.begin_nested()
        record_change(
            session, actor="ana", action="x.y", subject="x/y", before=None, after={"a": 1}
        )
        attempt.rollback()

    assert found(database) == []


def test_what_postgresql_cannot_hold_is_replaced_and_what_is_long_is_cut(
    database: Database,
) -> None:
    note(database, 1, actor="a\x00b" * 100, subject="Deployment/" + "x" * 1000)

    with database.reading() as session:
        event = list_events(session, AuditFilter(), limit=1)[0]
    assert "\x00" not in event.actor
    assert len(event.subject) <= 320


def new_key(database: Database, name: str = "ci", role: Role = Role.VIEWER) -> str:
    with database.session() as session:
        return add_key(
            session, name=name, role=role, tenant=None, expires_at_unix_ns=None, actor="ana"
        ).key_id


def test_a_name_is_free_again_once_its_key_was_revoked(database: Database) -> None:
    first = new_key(database)
    with pytest.raises(AccessError, match="revoke it first"):
        new_key(database)
    with database.session() as session:
        revoke_key(session, first, actor="ana")
    second = new_key(database)

    with database.reading() as session:
        keys = {key.key_id: key.revoked_at_unix_ns is not None for key in list_keys(session)}
    assert keys == {first: True, second: False}


def test_an_installation_has_an_admin_once_one_key_is_an_admins(database: Database) -> None:
    new_key(database)
    with database.reading() as session:
        assert not has_admin(session)
    new_key(database, "root", Role.ADMIN)
    with database.reading() as session:
        assert has_admin(session)
    with database.session() as session:
        with pytest.raises(AccessError, match="last admin"):
            revoke_key(session, "root", actor="ana")
        assert has_admin(session)
