"""Files of rules say what was put into them, whatever that is called."""

import io
from typing import Any

import pytest
from ruamel.yaml import YAML

from controlplane.slo.prometheus.rule_lines import lines_of
from controlplane.slo.prometheus.rules import AlertRule, RecordingRule, RuleGroup, render

_TEXTS = (
    "chat",
    "null",
    "yes",
    "n",
    "True",
    "1e3",
    "0x1f",
    "017",
    "1:30",
    "2026-12-01",
    "30s",
    "1.5",
    "~",
    "",
    " led by a space",
    "trailed by one ",
    "- no list",
    "a: b",
    "ends with:",
    "a #b",
    "#b",
    "it's: his",
    'it\'s: "his"',
    'a\\b: "c"',
    "{{ $value }} of it",
    "[1, 2]",
    "*a",
    "&a",
    "!a",
    "%a",
    "@a",
    "`a`",
    "größe: 5 €",
    "a\tb",
    "a\x07b",
    "two\nlines",
    "two\nlines\n",
    "more\n\nlines\n\n",
    "\nfirst is empty\n",
    "  set in\nlines\n",
    "a\n  b: c\n",
    "a \x85 \u2028 b",
    "1 - (a / b)",
    "(a)\nand b: c\n",
)


def _read(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(io.StringIO(text))


@pytest.mark.parametrize("text", _TEXTS)
def test_text_is_read_as_it_was_written(text: str) -> None:
    document = {"groups": [{"name": text, "labels": {"key": text}}, {"name": "other"}], "end": text}
    assert _read("".join(lines_of(document))) == document


def test_lists_without_anything_stay_lists() -> None:
    assert _read("".join(lines_of({"groups": [{"name": "a", "rules": []}]}))) == {
        "groups": [{"name": "a", "rules": []}]
    }


def test_rules_are_read_as_they_are() -> None:
    alert = AlertRule(
        alert="Late",
        expr="a > 1\nand b > 1",
        labels={"deployment": "1e3", "request_class": "no"},
        annotations={"summary": "It's late: look", "description": "{{ $value }} #1"},
        for_seconds=300,
    )
    record = RecordingRule(record="a:b", expr='1 - (x{y="z"})')
    groups = [RuleGroup(name="g", interval_seconds=30, rules=[record, alert])]
    text = render(groups, ["Made", "", "here"])
    assert text.startswith("# Made\n#\n# here\ngroups:\n")
    assert _read(text) == {"groups": [group.document() for group in groups]}
