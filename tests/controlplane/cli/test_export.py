"""`pilothouse export` and `pilothouse import`: from one control plane to another."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controlplane.cli import main
from tests.controlplane.config_documents import DESIGN_POLICY, SERVICE
from tests.controlplane.config_server import ConfigServer, serve_config


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ConfigServer]:
    """One with config."""
    (tmp_path / "old").mkdir()
    with serve_config(tmp_path / "old") as server:
        for texts in (SERVICE, (DESIGN_POLICY.replace("64", "65"),)):
            files = [{"name": f"f{i}.yaml", "text": text} for i, text in enumerate(texts)]
            server.http.post("/api/v1/apply", json={"files": files}).raise_for_status()
        yield server


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[ConfigServer]:
    """One without."""
    (tmp_path / "new").mkdir()
    with serve_config(tmp_path / "new") as server:
        yield server


def run(server: ConfigServer, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments), "--url", server.url])


def latest(server: ConfigServer) -> dict[str, tuple[str, str, int]]:
    return {
        f"{each['kind']}/{each['revision']}": (
            each["digest"],
            each["author"],
            each["created_at_unix_ns"],
        )
        for each in server.http.get("/api/v1/config").json()
    }


def test_what_was_exported_is_there_again_after_the_import(
    server: ConfigServer, empty: ConfigServer, tmp_path: Path
) -> None:
    exported = run(server, "export", "-o", tmp_path / "conf")
    imported = run(empty, "import", tmp_path / "conf")

    assert (exported.exit_code, imported.exit_code) == (0, 0), imported.output
    assert latest(empty) == latest(server)
    assert exported.output.splitlines()[-1] == imported.output.splitlines()[-1]
    assert empty.announcements == [6]


def test_the_latest_documents_can_be_applied_as_they_are_and_change_nothing(
    server: ConfigServer, tmp_path: Path
) -> None:
    run(server, "export", "-o", tmp_path / "conf")

    result = run(server, "apply", "-f", tmp_path / "conf")

    assert result.exit_code == 0, result.output
    assert {line.rpartition(" ")[2] for line in result.output.splitlines()} == {"unchanged"}


def test_an_import_over_config_is_refused_with_the_remedy(
    server: ConfigServer, tmp_path: Path
) -> None:
    run(server, "export", "-o", tmp_path / "conf")

    result = run(server, "import", tmp_path / "conf")

    assert result.exit_code == 1
    assert "pilothouse apply -f DIR" in result.output


def test_a_folder_that_holds_anything_is_not_written_into(
    server: ConfigServer, tmp_path: Path
) -> None:
    result = run(server, "export", "-o", tmp_path)

    assert result.exit_code == 2
    assert "is not empty" in result.output


def test_a_line_that_was_cut_is_named(
    server: ConfigServer, empty: ConfigServer, tmp_path: Path
) -> None:
    run(server, "export", "-o", tmp_path / "conf")
    history = tmp_path / "conf" / "history.jsonl"
    history.write_text(history.read_text()[:-20])

    result = run(empty, "import", tmp_path / "conf")

    assert result.exit_code == 2
    assert f"{history}:" in result.output
    assert latest(empty) == {}


def test_a_folder_that_is_no_export_is_refused(empty: ConfigServer, tmp_path: Path) -> None:
    result = run(empty, "import", tmp_path / "nowhere")

    assert result.exit_code == 2
    assert "pilothouse export" in result.output


def test_programs_are_told_in_json(
    server: ConfigServer, empty: ConfigServer, tmp_path: Path
) -> None:
    exported = json.loads(run(server, "export", "-o", tmp_path / "c", "--json").output)
    imported = json.loads(run(empty, "import", tmp_path / "c", "-o", "json").output)

    assert exported["num_revisions"] == imported["num_revisions"] == 6
    assert exported["digest"] == imported["digest"]
