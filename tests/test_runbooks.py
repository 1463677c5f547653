"""Runbooks are code: they have their five parts, and what they name exists."""

import re
from pathlib import Path

import pytest

from controlplane.cli import COMMANDS
from dataplane import names

ROOT = Path(__file__).parents[1]
RUNBOOKS = sorted(p for p in (ROOT / "ops" / "runbooks").glob("*.md") if p.name != "README.md")
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Prevention"]


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_a_runbook_has_its_five_parts_in_order_and_tells_look_alikes_apart(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS
    diagnosis = text.partition("## Diagnosis")[2].partition("## Mitigation")[0]
    assert "Tell it apart" in diagnosis


@pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
def test_every_metric_command_and_script_in_a_runbook_exists(page: Path) -> None:
    text = page.read_text()
    known = {value for value in vars(names).values() if isinstance(value, str)}
    assert set(re.findall(r"\bpilothouse_(?:gateway|replica|controlplane)_\w+", text)) <= known
    assert set(re.findall(r"\.venv/bin/pilothouse (\w+)", text)) <= COMMANDS.keys()
    for script in re.findall(r"\bops/[\w/]+\.(?:py|sh)\b", text):
        assert (ROOT / script).is_file(), script


def test_the_index_lists_every_runbook() -> None:
    index = (ROOT / "ops" / "runbooks" / "README.md").read_text()
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == {page.name for page in RUNBOOKS}
