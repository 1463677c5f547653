"""`pilothouse plugins`."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from controlplane.cli import main


def test_plugins_are_listed_by_the_process_that_loads_them() -> None:
    result = CliRunner().invoke(main, ["plugins", "-o", "json"])

    found = {(row["group"], row["name"]) for row in json.loads(result.output)}
    assert found >= {
        ("pilothouse.gateway", "openai"),
        ("pilothouse.gateway", "paged"),
        ("pilothouse.replica", "paged"),
        ("pilothouse.controlplane", "local"),
    }


def test_a_broken_plugin_is_listed_without_harm_and_named_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / "pilothouse_broken-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: pilothouse-broken\nVersion: 1.2\n"
    )
    (metadata / "entry_points.txt").write_text("[pilothouse.gateway]\nbroken = pilothouse_broken\n")
    (tmp_path / "pilothouse_broken.py").write_text("raise RuntimeError('out of steam')\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    listed = CliRunner().invoke(main, ["plugins"])
    checked = CliRunner().invoke(main, ["plugins", "--check"])

    assert listed.exit_code == 0
    assert "pilothouse_broken" not in sys.modules
    assert "broken  pilothouse_broken" in listed.output
    assert checked.exit_code == 1
    assert "RuntimeError: out of steam" in checked.output
