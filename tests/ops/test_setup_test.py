"""What the tests need beyond Python is found where it is, and its absence is told."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.postgresql import PostgresqlMissingError, find_tools

ROOT = Path(__file__).parents[2]


def add_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def add_server(debian: Path, version: str) -> Path:
    folder = debian / version.partition(".")[0] / "bin"
    add_program(folder / "initdb", f"echo 'initdb (PostgreSQL) {version} (Debian {version}-1)'")
    return folder


def test_the_newest_server_is_taken_whichever_the_release_has(tmp_path: Path) -> None:
    add_server(tmp_path, "9.6")
    add_server(tmp_path, "15.8")
    newest = add_server(tmp_path, "17.2")
    assert find_tools(tmp_path) == newest


def test_a_client_without_a_server_and_a_server_that_is_too_old_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_server(tmp_path / "debian", "13.9")
    add_program(tmp_path / "bin" / "pg_config", f"echo {tmp_path / 'nowhere'}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    with pytest.raises(PostgresqlMissingError, match="apt-get install postgresql"):
        find_tools(tmp_path / "debian")


def test_a_prometheus_that_cannot_be_fetched_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    add_program(
        tmp_path / "bin" / "apt-get", '[ "$1" = update ] || { echo no network >&2; exit 100; }'
    )
    (tmp_path / "scratch").mkdir()
    done = subprocess.run(
        [ROOT / "ops" / "fetch-prometheus.sh", tmp_path],
        env=os.environ
        | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "TMPDIR": str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 100
    assert "no network" in done.stderr
    assert list((tmp_path / "scratch").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []
