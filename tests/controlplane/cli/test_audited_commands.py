"""What commands do to the databases by themselves is in the audit, and a restore says whom it
lets in again."""

from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.author import default_author
from controlplane.store.access_keys import add_key, list_keys, revoke_key
from controlplane.store.audit import AuditEvent, AuditFilter, list_events
from controlplane.store.connection import DatabaseKind
from controlplane.store.database import Database, open_database
from controlplane.store.records import RecordBatch, ReservoirSizes, store_batch
from controlplane.store.users import add_user, list_users, set_disabled
from controlplane.supervisor.state_lock import state_lock
from dataplane.access import Role
from dataplane.clock import wall_clock
from tests.databases import Databases, SqliteDatabases
from tests.dataplane.golden_request import golden_record

DAY_NS = 86_400 * 10**9


def run(*command: str, state_dir: Path) -> Result:
    return CliRunner().invoke(main, ["db", *command, "--state-dir", str(state_dir)])


def urls(databases: Databases) -> list[str]:
    return [
        *("--config-url", databases.url(DatabaseKind.CONFIG)),
        *("--requests-url", databases.url(DatabaseKind.REQUESTS)),
    ]


def events(database: Database, action: str) -> list[AuditEvent]:
    with database.reading() as session:
        return list_events(session, AuditFilter(action=action), 100)


def store_old_record(databases: Databases) -> None:
    record = golden_record(arrived_at_unix_ns=wall_clock() - 100 * DAY_NS)
    with closing(databases.open(DatabaseKind.REQUESTS)) as database, database.session() as session:
        batch = RecordBatch(gateway_id="g", num_lost=0, records=(record,))
        store_batch(session, batch, Random(1), ReservoirSizes())


def test_a_prune_is_in_the_audit_with_who_why_and_how_much(
    databases: Databases, tmp_path: Path
) -> None:
    databases.open(DatabaseKind.CONFIG).close()
    store_old_record(databases)

    tried = run("prune", "--dry-run", *urls(databases), state_dir=tmp_path)
    done = run("prune", "--reason", "disk is full", *urls(databases), state_dir=tmp_path)
    again = run("prune", *urls(databases), state_dir=tmp_path)

    assert (tried.exit_code, done.exit_code, again.exit_code) == (0, 0, 0), done.output
    with closing(databases.open(DatabaseKind.CONFIG)) as config:
        [event] = events(config, "database.prune")
    assert (event.actor, event.reason) == (default_author(), "disk is full")
    assert event.subject == "database/requests"
    assert event.after is not None
    assert event.after["requests"]["rows_removed"] == 1
    assert event.before is not None
    assert set(event.before) == {"full_records", "requests"}


def test_a_prune_without_a_config_database_is_done_and_says_that_it_is_in_no_audit(
    tmp_path: Path,
) -> None:
    databases = SqliteDatabases(tmp_path)
    store_old_record(databases)

    done = run("prune", state_dir=tmp_path)

    assert done.exit_code == 0
    assert "requests: removed 1 rows" in done.output
    assert f"there is no config database at {tmp_path}/config.db" in done.stderr
    assert not (tmp_path / "config.db").exists()


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """Of a day when two keys were in use and ann could log in; since then that has changed."""
    file = tmp_path / "monday.tar.gz"
    with closing(SqliteDatabases(tmp_path).open(DatabaseKind.CONFIG)) as database:
        with database.session() as session:
            for name in ("leaked", "kept"):
                add_key(
                    session, name=name, role=Role.ADMIN, tenant=None,
                    expires_at_unix_ns=None, actor="test",
                )  # fmt: skip
            for name in ("ann", "bo"):
                add_user(
                    session, name=name, role=Role.ADMIN, tenant=None,
                    password_hash="$argon2id$old", actor="test",
                )  # fmt: skip
        assert run("backup", str(file), state_dir=tmp_path).exit_code == 0
        with database.session() as session:
            revoke_key(session, "leaked", actor="test")
            set_disabled(session, "ann", is_disabled=True, actor="test")
    return file


def test_a_restore_says_that_access_is_what_it_was_and_is_in_the_audit(
    backup: Path, tmp_path: Path
) -> None:
    restored = run("restore", str(backup), "--reason", "disk died", state_dir=tmp_path / "new")

    assert restored.exit_code == 0, restored.output
    assert "2 keys open again, and 2 users" in restored.output
    assert "--revoke-keys" in restored.output
    with closing(open_new(tmp_path)) as database:
        [event] = events(database, "database.restore")
        assert not events(database, "key.revoke")
    assert (event.actor, event.reason) == (default_author(), "disk died")
    assert event.before is None
    assert event.after is not None
    assert event.after["file"] == "monday.tar.gz"
    assert (event.after["keys_in_use"], event.after["keys_revoked"]) == (2, 0)


def test_a_restore_may_revoke_every_key_and_touches_no_user(backup: Path, tmp_path: Path) -> None:
    command = ("restore", str(backup), "--revoke-keys", "--reason", "stolen")
    restored = run(*command, state_dir=tmp_path / "new")

    assert restored.exit_code == 0, restored.output
    assert "revoked 2 keys" in restored.output
    assert "0 keys open again, and 2 users" in restored.output
    with closing(open_new(tmp_path)) as database:
        with database.reading() as session:
            keys, users = list_keys(session), list_users(session)
        revoked = events(database, "key.revoke")
        [event] = events(database, "database.restore")
    assert all(key.revoked_at_unix_ns is not None for key in keys)
    assert [(user.name, user.is_disabled) for user in users] == [("ann", False), ("bo", False)]
    assert sorted(each.subject for each in revoked) == ["key/kept", "key/leaked"]
    assert {(each.actor, each.reason) for each in revoked} == {(default_author(), "stolen")}
    assert event.after is not None
    assert event.after["keys_revoked"] == 2


def open_new(tmp_path: Path) -> Database:
    return open_database(
        SqliteDatabases(tmp_path / "new").url(DatabaseKind.CONFIG), DatabaseKind.CONFIG
    )


def test_a_dry_run_of_an_upgrade_waits_for_no_control_plane_that_still_runs(
    tmp_path: Path,
) -> None:
    with state_lock(tmp_path, "controlplane.lock", "control plane"):
        tried = run("upgrade", "--dry-run", state_dir=tmp_path)

    assert tried.exit_code == 1
    assert "another control plane" in tried.output
