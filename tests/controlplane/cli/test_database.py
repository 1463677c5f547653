"""`pilothouse db`."""

from contextlib import closing
from pathlib import Path

from click.testing import CliRunner, Result
from sqlalchemy import update

from controlplane.cli import main
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.integrity import read_config_digest
from controlplane.store.revisions import apply_documents
from controlplane.store.schema import newest_version
from controlplane.store.tables import RevisionRow
from controlplane.store.upgrade import migrate
from controlplane.supervisor.state_lock import state_lock
from tests.controlplane.config_documents import SERVICE, documents
from tests.databases import Databases, SqliteDatabases


def run(command: str, state_dir: Path, *more: str) -> Result:
    return CliRunner().invoke(main, ["db", command, "--state-dir", str(state_dir), *more])


def urls(databases: Databases) -> list[str]:
    return [
        *("--config-url", databases.url(DatabaseKind.CONFIG)),
        *("--requests-url", databases.url(DatabaseKind.REQUESTS)),
    ]


def test_upgrade_creates_what_is_missing_and_is_done_only_once(tmp_path: Path) -> None:
    first = run("upgrade", tmp_path / "state")
    second = run("upgrade", tmp_path / "state")

    newest = {kind: newest_version(kind) for kind in DatabaseKind}
    assert first.output.splitlines() == [
        f"{kind}: created with schema {version}" for kind, version in newest.items()
    ]
    assert second.output.splitlines() == [
        f"{kind}: already at schema {version}" for kind, version in newest.items()
    ]
    assert first.exit_code == second.exit_code == 0


def test_check_changes_nothing_and_says_what_to_run(tmp_path: Path) -> None:
    result = run("check", tmp_path)

    assert result.exit_code == 3
    assert f"pilothouse db upgrade --state-dir {tmp_path}" in result.output
    assert list(tmp_path.iterdir()) == []


def test_what_check_says_to_run_makes_it_content(tmp_path: Path) -> None:
    run("upgrade", tmp_path)
    migrate(sqlite_url(tmp_path / "requests.db"), DatabaseKind.REQUESTS, "base")

    assert run("check", tmp_path).exit_code == 3
    upgraded = f"requests: upgraded from schema none to {newest_version(DatabaseKind.REQUESTS)}"
    assert upgraded in run("upgrade", tmp_path).output
    assert run("check", tmp_path).exit_code == 0


def test_a_database_of_somebody_else_stops_the_upgrade(tmp_path: Path) -> None:
    (tmp_path / "config.db").write_text("my diary, page 1\n" * 100)

    result = run("upgrade", tmp_path)

    assert result.exit_code == 3
    assert "it is no SQLite database" in result.output
    assert (tmp_path / "config.db").read_text().startswith("my diary")


def test_a_dry_run_says_what_an_upgrade_would_do_and_changes_nothing(tmp_path: Path) -> None:
    run("upgrade", tmp_path)
    migrate(sqlite_url(tmp_path / "requests.db"), DatabaseKind.REQUESTS, "0001")

    tried = run("upgrade", tmp_path, "--dry-run")

    newest = newest_version(DatabaseKind.REQUESTS)
    assert f"requests: can be upgraded from schema 0001 to {newest}" in tried.output
    assert run("check", tmp_path).exit_code == 3


def test_an_upgrade_waits_for_no_control_plane_that_still_runs(tmp_path: Path) -> None:
    with state_lock(tmp_path, "controlplane.lock", "control plane"):
        result = run("upgrade", tmp_path)

    assert result.exit_code == 1
    assert "another control plane" in result.output


def test_a_backup_restores_under_the_same_config_digest(
    databases: Databases, tmp_path: Path
) -> None:
    file = str(tmp_path / "b.tar.gz")
    with closing(databases.open(DatabaseKind.CONFIG)) as config, config.session() as session:
        apply_documents(session, documents(*SERVICE), author="ann", reason="")
    databases.open(DatabaseKind.REQUESTS).close()

    saved = run("backup", tmp_path, file, "--with-requests", *urls(databases))
    restored = run("restore", tmp_path / "new", file, "--with-requests")
    checked = run("check", tmp_path / "new", "--deep")

    digest = "config digest " + digest_of_config(databases)
    assert (saved.exit_code, restored.exit_code, checked.exit_code) == (0, 0, 0)
    assert all(digest in result.output for result in (saved, restored, checked))


def digest_of_config(databases: Databases) -> str:
    with closing(databases.open(DatabaseKind.CONFIG)) as config, config.reading() as session:
        return read_config_digest(session.connection()).digest


def test_a_restore_into_what_is_not_empty_is_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "b.tar.gz")
    databases = SqliteDatabases(tmp_path)
    with closing(databases.open(DatabaseKind.CONFIG)) as config, config.session() as session:
        apply_documents(session, documents(*SERVICE), author="ann", reason="")
    run("backup", tmp_path, file)

    result = run("restore", tmp_path, file)

    assert result.exit_code == 1
    assert "is not empty" in result.output


def test_a_document_that_was_changed_behind_our_back_is_found(databases: Databases) -> None:
    with closing(databases.open(DatabaseKind.CONFIG)) as config:
        with config.session() as session:
            apply_documents(session, documents(*SERVICE), author="ann", reason="")
        with config.session() as session:
            session.execute(update(RevisionRow).values(document={"kind": "Model"}))
    databases.open(DatabaseKind.REQUESTS).close()

    shallow = run("check", Path("unused"), *urls(databases))
    deep = run("check", Path("unused"), "--deep", *urls(databases))

    assert (shallow.exit_code, deep.exit_code) == (0, 1)
    assert "Model/smollm2@1 is not the document that was stored" in deep.output


def test_no_message_shows_a_password(tmp_path: Path) -> None:
    url = "postgresql://ann:geheim@127.0.0.1:1/pilothouse?sslpassword=geheim"

    results = [
        run(command, tmp_path, "--config-url", given)
        for command in ("check", "upgrade")
        for given in (url, url.replace("postgresql", "mysql"), "ann:geheim@host", url + "://")
    ]

    assert {result.exit_code for result in results} == {2, 5}
    assert all("geheim" not in result.output for result in results)
