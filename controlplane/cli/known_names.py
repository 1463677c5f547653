"""Every metric, span, label and attribute, read off the source: dataplane/names.py has the
names, and the code that makes a metric has its meaning."""

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import dataplane
from dataplane import names

_SECTIONS = {
    "METRIC": "metric",
    "SPAN_": "span",
    "ATTRIBUTE_": "attribute",
    "LABEL_": "label",
}
_TYPES = ("counter", "histogram", "gauge", "info")
_ROOTS = ("dataplane", "controlplane")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownName:
    """One name that leaves a process."""

    name: str
    sort: str
    """metric, span, attribute or label."""
    type: str
    """Of a metric: counter, gauge, histogram or info."""
    doc: str


def known_names() -> list[KnownName]:
    """All of them, as dataplane/names.py has them in order."""
    texts = _texts()
    metrics = _metrics()
    found = []
    for constant, value in vars(names).items():
        sort = _sort(constant, value)
        if sort is not None:
            metric_type, meaning = metrics.get(constant, ("", ""))
            doc = " ".join(part for part in (meaning, texts.get(constant, "")) if part)
            found.append(KnownName(name=value, sort=sort, type=metric_type, doc=doc))
    return found


def _sort(constant: str, value: object) -> str | None:
    if not constant.isupper() or not isinstance(value, str):
        return None
    if value.startswith("pilothouse_"):
        return "metric"
    return next((sort for begin, sort in _SECTIONS.items() if constant.startswith(begin)), None)


@cache
def _texts() -> Mapping[str, str]:
    """The texts below the constants."""
    body = ast.parse(Path(names.__file__).read_text(encoding="utf-8")).body
    texts = {}
    for before, after in itertools.pairwise(body):
        match before, after:
            case (
                ast.Assign(targets=[ast.Name(id=constant)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[constant] = " ".join(text.split())
    return texts


@cache
def _metrics() -> Mapping[str, tuple[str, str]]:
    """Constant -> type and meaning, wherever a metric is made."""
    root = Path(dataplane.__file__).parents[1]
    found: dict[str, tuple[str, str]] = {}
    for folder in _ROOTS:
        for path in sorted((root / folder).rglob("*.py")):
            source = path.read_text(encoding="utf-8")
            if "prometheus_client" in source:
                for node in ast.walk(ast.parse(source)):
                    found.update(_made_by(node))
    return found


def _made_by(node: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    """What `Counter(names.X, "What it counts.", ...)` or a line of a table of metrics says."""
    match node:
        case ast.Call(args=[first, ast.Constant(value=str(text)), *_]):
            constant = _constant(first)
            if constant is not None:
                yield constant, (_type_of(node.func), text)
        case ast.Tuple(elts=[first, ast.Constant(value=str(text)), *_]):
            constant = _constant(first)
            if constant is not None:
                yield constant, (_type_by_name(constant), text)
        case ast.Dict():
            for key, value in zip(node.keys, node.values, strict=True):
                constant = _constant(key)
                match value:
                    case ast.Tuple(elts=[*_, ast.Constant(value=str(text))]) if constant:
                        yield constant, (_type_by_name(constant), text)


def _constant(node: ast.expr | None) -> str | None:
    match node:
        case ast.Attribute(value=ast.Name(id="names"), attr=constant):
            return constant
    return None


def _type_of(function: ast.expr) -> str:
    called = ast.unparse(function).casefold()
    return next((each for each in _TYPES if each in called), "")


def _type_by_name(constant: str) -> str:
    """Where a table makes several: a counter is named with its suffix."""
    return "counter" if constant.endswith("_TOTAL") else "gauge"
