"""`pilothouse plugins`."""

import json
import re
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
        ("pilothouse.gateway", "simulator"),
        ("pilothouse.replica", "simulator"),
        ("pilothouse.controlplane", "simulator"),
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
    assert re.search(r"broken +pilothouse_broken", listed.output)
    assert checked.exit_code == 1
    assert "RuntimeError: out of steam" in checked.output


def test_a_description_says_the_same_to_people_and_to_programs() -> None:
    text = CliRunner().invoke(main, ["plugins", "describe", "openai"])
    result = CliRunner().invoke(main, ["plugins", "describe", "openai", "-o", "json"])

    assert text.exit_code == result.exit_code == 0
    described = {each["group"]: each for each in json.loads(result.output)}
    gateway = described["pilothouse.gateway"]
    assert gateway["target"] in text.output
    assert f"{gateway['distribution']} {gateway['version']}" in text.output
    assert gateway["about"] in text.output
    assert gateway["hooks"]
    for hook, meaning in gateway["hooks"].items():
        assert f"{hook}  " in text.output
        assert meaning in text.output
    told = [each["settings"] for each in described.values() if each["settings"] is not None]
    assert told
    for settings in told:
        assert "api_key_env" in settings
        assert f"settings it takes: {', '.join(settings)}" in text.output


def test_a_plugin_that_is_not_there_is_told_with_those_that_are() -> None:
    result = CliRunner().invoke(main, ["plugins", "describe", "opnai", "-o", "json"])

    assert result.exit_code == 4
    assert "there is no plugin 'opnai'. Installed: " in result.output
