"""Runbooks are code: they have their five parts, and what they name exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from controlplane.cli import main
from controlplane.diagnosis.mechanism import Mechanism
from dataplane import names
from dataplane.engine_metrics.tables import TABLES

ROOT = Path(__file__).parents[1]
RUNBOOKS = sorted(p for p in (ROOT / "ops" / "runbooks").glob("*.md") if p.name != "README.md")
SECTIONS = ["Meaning", "Impact", "Diagnosis", "Mitigation", "Prevention"]
MECHANISM_PAGES = sorted(ROOT / each.runbook for each in Mechanism if each.runbook is not None)

EVERY_PAGE = pytest.mark.parametrize("page", RUNBOOKS, ids=lambda page: page.stem)
EVERY_MECHANISMS_PAGE = pytest.mark.parametrize("page", MECHANISM_PAGES, ids=lambda page: page.stem)


def section(page: Path, name: str) -> str:
    """What stands under one of the five headings."""
    after = page.read_text().partition(f"\n## {name}\n")[2]
    return after.partition("\n## ")[0].strip()


def metrics_of_engines() -> set[str]:
    """All that the adapters or the diagnosis know how to read."""
    return {name for table in TABLES for name in table.names}


def calls_in(text: str) -> Iterator[list[str]]:
    """The words of each call of our command, up to where the shell takes over."""
    for call in re.findall(r"\.venv/bin/pilothouse\b([^`\n|;>)#]*)", text):
        yield call.split()


def problem_of_call(words: list[str]) -> str | None:
    """Why our command would not take these words: an unknown command or an unknown option."""
    command: click.Command = main
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("-") and word != "-":
            option = next((each for each in command.params if word in each.opts), None)
            if not isinstance(option, click.Option):
                return f"{command.name} has no option {word}"
            rest = rest if option.is_flag else rest[1:]
        elif isinstance(command, click.Group):
            found = command.get_command(click.Context(command), word)
            if found is None:
                return f"{command.name} has no command {word}"
            command = found
    return None


@EVERY_PAGE
def test_a_runbook_has_its_five_parts_in_order_and_tells_look_alikes_apart(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS
    assert "Tell it apart" in section(page, "Diagnosis")


@EVERY_PAGE
def test_every_metric_command_and_script_in_a_runbook_exists(page: Path) -> None:
    text = page.read_text()
    known = {value for value in vars(names).values() if isinstance(value, str)}
    assert set(re.findall(r"\bpilothouse_(?:gateway|replica|controlplane)_\w+", text)) <= known
    assert [p for p in map(problem_of_call, calls_in(text)) if p is not None] == []
    for file in re.findall(r"(?<![\w/.])ops/[\w/-]+\.(?:py|sh|yaml)\b", text):
        assert (ROOT / file).is_file(), file


@EVERY_PAGE
def test_every_engine_metric_in_a_runbook_is_one_that_some_version_exports(page: Path) -> None:
    named = re.findall(
        r"\b(?:(?:vllm|sglang|llamacpp):|(?:tgi|trtllm)_)[a-z_0-9]+", page.read_text()
    )
    assert set(named) - metrics_of_engines() == set()


@EVERY_PAGE
def test_a_runbook_links_only_to_pages_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@EVERY_MECHANISMS_PAGE
def test_the_diagnosis_of_a_mechanism_ends_in_what_separates_it_from_its_look_alikes(
    page: Path,
) -> None:
    last = section(page, "Diagnosis").rpartition("\n\n")[2]
    assert last.startswith("Tell it apart")
    assert re.search(r"\]\([\w-]+\.md\)", last) or page.stem == "cannot-tell"


@EVERY_MECHANISMS_PAGE
def test_the_mitigation_of_a_mechanism_says_what_to_keep_and_what_it_may_hide(page: Path) -> None:
    mitigation = section(page, "Mitigation")
    assert re.search(r"^- Keep first", mitigation, re.M)
    assert "restart" in mitigation.lower()
    assert "- What it may hide:" in mitigation


def test_every_mechanism_has_its_page() -> None:
    assert [page.name for page in MECHANISM_PAGES if not page.is_file()] == []


def test_the_index_lists_every_runbook() -> None:
    index = (ROOT / "ops" / "runbooks" / "README.md").read_text()
    assert set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == {page.name for page in RUNBOOKS}


def test_the_readme_says_how_many_mechanisms_there_are() -> None:
    (said,) = re.findall(r"names the mechanism: (\d+) of them", (ROOT / "README.md").read_text())
    assert int(said) == len(set(Mechanism) - {Mechanism.HEALTHY, Mechanism.CANNOT_TELL})
