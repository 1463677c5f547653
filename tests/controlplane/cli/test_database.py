"""`pilothouse db`."""

from pathlib import Path

from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.store.connection import DatabaseKind, sqlite_url
from controlplane.store.schema import newest_version
from controlplane.store.upgrade import migrate


def run(command: str, state_dir: Path) -> Result:
    return CliRunner().invoke(main, ["db", command, "--state-dir", str(state_dir)])


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

    assert result.exit_code == 1
    assert f"pilothouse db upgrade --state-dir {tmp_path}" in result.output
    assert list(tmp_path.iterdir()) == []


def test_what_check_says_to_run_makes_it_content(tmp_path: Path) -> None:
    run("upgrade", tmp_path)
    migrate(sqlite_url(tmp_path / "requests.db"), DatabaseKind.REQUESTS, "base")

    assert run("check", tmp_path).exit_code == 1
    upgraded = f"requests: upgraded from schema none to {newest_version(DatabaseKind.REQUESTS)}"
    assert upgraded in run("upgrade", tmp_path).output
    assert run("check", tmp_path).exit_code == 0


def test_a_database_of_somebody_else_stops_the_upgrade(tmp_path: Path) -> None:
    (tmp_path / "config.db").write_text("my diary, page 1\n" * 100)

    result = run("upgrade", tmp_path)

    assert result.exit_code == 1
    assert "it is no SQLite database" in result.output
    assert (tmp_path / "config.db").read_text().startswith("my diary")
