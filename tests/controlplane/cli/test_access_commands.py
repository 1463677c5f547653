"""Keys, users and the audit from the command line, against a real control plane that asks."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn
from click.testing import CliRunner, Result

from controlplane.cli import main
from controlplane.cli.exit_codes import ExitCode
from controlplane.store.connection import DatabaseKind, default_paths, sqlite_url
from controlplane.store.database import create_or_open_database
from dataplane.access import Role, key_id_of
from tests.controlplane.guarded_plane import PASSWORD, GuardedPlane, guarded_plane


@pytest.fixture
def plane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GuardedPlane]:
    with guarded_plane(tmp_path) as plane:
        listener = socket.create_server(("127.0.0.1", 0))
        config = uvicorn.Config(plane.app, log_level="error", lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        monkeypatch.setenv("PILOTHOUSE_URL", f"http://127.0.0.1:{listener.getsockname()[1]}")
        monkeypatch.setenv("PILOTHOUSE_KEY", plane.key(Role.ADMIN))
        yield plane
        server.should_exit = True
        thread.join()
        listener.close()


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(main, arguments, input=text)


def test_a_key_is_made_into_a_file_used_from_there_and_revoked(
    plane: GuardedPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ci.key"
    made = run("keys", "create", "ci", "--role", "operator", "--out", str(path))
    assert made.exit_code == 0, made.output
    key = path.read_text().strip()
    assert key_id_of(key) is not None
    assert key not in made.output
    assert path.stat().st_mode & 0o777 == 0o600

    admin_key = plane.key(Role.ADMIN, name="second")
    monkeypatch.delenv("PILOTHOUSE_KEY")
    assert run("--key-file", str(path), "get").exit_code == 0
    refused = run("--key-file", str(path), "keys", "list")
    assert refused.exit_code == ExitCode.NOT_ALLOWED
    assert "admin" in refused.output

    monkeypatch.setenv("PILOTHOUSE_KEY", admin_key)
    again = run("keys", "create", "other", "--role", "viewer", "--out", str(path))
    assert again.exit_code == ExitCode.USAGE
    assert "nothing is overwritten" in again.output
    assert path.read_text().strip() == key
    assert run("keys", "revoke", "ci", "--reason", "rotated").exit_code == 0
    assert run("--key-file", str(path), "get").exit_code == ExitCode.NOT_ALLOWED
    assert "ci" not in run("keys", "list").output.split()
    assert "revoked" in run("keys", "list", "--all").output


def test_without_a_key_one_is_asked_for(
    plane: GuardedPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PILOTHOUSE_KEY")

    result = run("get")

    assert result.exit_code == ExitCode.NOT_ALLOWED
    assert "PILOTHOUSE_KEY" in result.output


def test_what_is_no_key_never_leaves_the_machine(
    plane: GuardedPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "passwords"
    secret.write_text("hunter2 hunter2")
    monkeypatch.setenv("PILOTHOUSE_KEY", "hunter2")

    for result in (run("get"), run("--key-file", str(secret), "get")):
        assert result.exit_code == ExitCode.USAGE
        assert "hunter2" not in result.output


def test_a_user_is_made_changed_and_shut_out(plane: GuardedPlane) -> None:
    made = run("users", "create", "ana", "--role", "viewer", text=f"{PASSWORD}\n{PASSWORD}\n")
    assert made.exit_code == 0, made.output
    assert PASSWORD not in made.output

    assert run("users", "role", "ana", "--role", "operator").exit_code == 0
    assert run("users", "disable", "ana", "--reason", "left").exit_code == 0
    listed = run("users", "list").output
    assert "operator" in listed
    assert "disabled" in listed
    assert run("users", "enable", "nobody").exit_code == ExitCode.NOT_FOUND


def test_the_audit_says_who_when_what_and_what_differs(plane: GuardedPlane) -> None:
    run("users", "create", "ana", "--role", "viewer", text=f"{PASSWORD}\n{PASSWORD}\n")
    run("users", "role", "ana", "--role", "operator", "--reason", "on call now")

    table = run("audit", "--subject", "user/ana")
    diffed = run("audit", "--action", "user.role", "--diff")
    lines = run("audit", "--all", "-o", "json").output.splitlines()

    assert "on call now" in table.output
    assert "user.create" in table.output
    assert "role: viewer -> operator" in diffed.output
    events = [json.loads(line) for line in lines]
    assert [event["action"] for event in events][:2] == ["user.role", "user.create"]
    assert {event["actor"] for event in events[:2]} == {"admin-all"}
    assert PASSWORD not in "".join(lines)
    assert run("audit", "--since", "yesterday").exit_code == ExitCode.USAGE


def test_the_first_admin_lets_itself_in_and_only_the_first(tmp_path: Path) -> None:
    url = sqlite_url(default_paths(tmp_path)[DatabaseKind.CONFIG])
    arguments = ("access", "bootstrap", "--state-dir", str(tmp_path))
    absent = run(*arguments)
    assert absent.exit_code == ExitCode.UNUSABLE_STATE
    assert "db upgrade" in absent.output
    create_or_open_database(url, DatabaseKind.CONFIG).close()

    first = CliRunner().invoke(main, arguments)
    second = run(*arguments)
    recovered = run(*arguments, "--recover", "--out", str(tmp_path / "admin.key"))

    assert first.exit_code == 0, first.output
    assert key_id_of(first.stdout.strip()) is not None
    assert second.exit_code == ExitCode.FAILED
    assert "--recover" in second.output
    assert recovered.exit_code == 0, recovered.output


@pytest.mark.parametrize("command", ["controlplane"])
def test_nobody_listens_for_other_machines_without_authentication(
    tmp_path: Path, command: str
) -> None:
    result = run(command, "--host", "0.0.0.0", "--state-dir", str(tmp_path))

    assert result.exit_code == ExitCode.USAGE
    assert "--auth required" in result.output
