"""What two rules look for stands once, in `controlplane.diagnosis.words`."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3] / "controlplane" / "diagnosis"
ROOMS = ("rules", "views", "words")
_EXPRESSION = re.compile(r"\\[bwsdDW]|\||\(\?|\.\*")
_LEAST_LETTERS = 10
"""Fewer are glue between parts of an expression, such as a bracket and a bound."""


def test_no_expression_stands_in_two_files() -> None:
    places: dict[str, set[str]] = defaultdict(set)
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            for text in _expressions(ast.parse(path.read_text(encoding="utf-8"))):
                places[text].add(str(path.relative_to(ROOT)))
    assert len(places) > 500
    assert not {text: files for text, files in places.items() if len(files) > 1}


def test_every_word_is_looked_for_by_two() -> None:
    """What only one file asks for stands in that file."""
    sources = {
        path: path.read_text(encoding="utf-8")
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
    }
    alone = [
        name
        for path in (ROOT / "words").glob("*.py")
        for name in re.findall(r"^([A-Z_]+) = ", sources[path], re.M)
        if sum(bool(re.search(rf"\b{name}\b", text)) for text in sources.values()) < 3
        and len(re.findall(rf"\b{name}\b", sources[path])) < 2
    ]
    assert not alone


def _expressions(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        letters = len(re.findall(r"[A-Za-z]", node.value))
        if letters >= _LEAST_LETTERS and _EXPRESSION.search(node.value):
            yield node.value
