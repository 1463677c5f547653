"""YAML, read strictly: JSON's types only, and every value keeps its place in the file.

The parser's events are read one by one, not its finished tree, because what arrives may be
hostile: a tree is built before anybody can look at its depth, and its constructor resolves
duplicate keys, aliases and tags in silence. Of YAML's many scalars only those of JSON have a
meaning here: `yes`, `0o17`, `12:30` and dates are text.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from controlplane.specs.problem import Path, Position, Problem, format_path
from controlplane.specs.source import Source

MAX_CHARACTERS = 256 * 1024
MAX_DEPTH = 24
MAX_VALUES = 10_000
MAX_PROBLEMS = 100
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_LARGEST_INTEGER = 2**63 - 1
_UNUSABLE_CHARACTER = re.compile("[\x00\ud800-\udfff]")


class _StopReadingError(Exception):
    """The rest of the file cannot or must not be read."""


@dataclass
class _Building:
    """A document that is being read."""

    start: Position
    keys: dict[Path, Position] = field(default_factory=dict)
    values: dict[Path, Position] = field(default_factory=dict)
    texts: dict[Path, Position] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)


def read_yaml(file: str, text: str) -> tuple[list[Source], list[Problem]]:
    """Every document of a file that could be read to its end, and every problem.

    Where a value is unusable, the document holds None instead.
    """
    reader = _Reader(file, text)
    return reader.read(), reader.problems


class _Reader:
    def __init__(self, file: str, text: str) -> None:
        self.problems: list[Problem] = []
        self._file = file
        self._text = text
        self._lines = text.split("\n")
        self._num_values = 0
        self._has_told_aliases = False
        self._events: Iterator[Any] = iter(())
        self._document = _Building(Position(1, 1))

    def read(self) -> list[Source]:
        if len(self._text) > MAX_CHARACTERS:
            what = f"the file is larger than {MAX_CHARACTERS} characters; split it"
            self.problems.append(self._problem(Position(1, 1), (), what))
            return []
        self._events = YAML(typ="safe", pure=True).parse(self._text)
        sources: list[Source] = []
        try:
            for event in self._events:
                if isinstance(event, DocumentStartEvent):
                    self._read_document(sources)
        except MarkedYAMLError as error:
            self.problems.append(self._syntax_problem(error))
        except YAMLError as error:
            what = f"this is not YAML: {str(error).splitlines()[0]}"
            self.problems.append(self._problem(Position(1, 1), (), what))
        except _StopReadingError:
            pass  # The reason is among the problems.
        return sources

    def _read_document(self, sources: list[Source]) -> None:
        first = next(self._events)
        self._document = _Building(_position(first))
        data = self._value(first, ())
        while not isinstance(next(self._events), DocumentEndEvent):
            pass
        # Nothing between two `---` is no document, and no mistake either.
        if data is not None:
            document = self._document
            sources.append(
                Source(
                    file=self._file,
                    start=document.start,
                    data=data,
                    keys=document.keys,
                    values=document.values,
                    texts=document.texts,
                    unreadable=frozenset(document.unreadable),
                )
            )

    def _value(self, event: Any, path: Path) -> Any:
        position = _position(event)
        self._document.values[path] = position
        self._count(position, path)
        if isinstance(event, AliasEvent) or event.anchor is not None:
            self._report_alias(position, path)
            if isinstance(event, AliasEvent):
                return None
        if event.tag is not None:
            self._report(position, path, f"tags are not supported: remove {event.tag[:40]}")
        if isinstance(event, MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, SequenceStartEvent):
            return self._sequence(path)
        return self._scalar(event, path)

    def _count(self, position: Position, path: Path) -> None:
        self._num_values += 1
        if len(path) > MAX_DEPTH:
            self._report(position, path[:3], f"nested more than {MAX_DEPTH} deep")
            raise _StopReadingError
        if self._num_values > MAX_VALUES:
            self._report(position, (), f"the file has more than {MAX_VALUES} values; split it")
            raise _StopReadingError

    def _mapping(self, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self._events), MappingEndEvent):
            key = self._key(event, path)
            position = _position(event)
            here = (*path, key)
            first = self._document.keys.setdefault(here, position)
            value = self._value(next(self._events), here)
            if key in mapping:
                message = f"this key stands here twice: first in line {first.line}; remove one"
                self._report(position, here, message)
            mapping[key] = value
        return mapping

    def _key(self, event: Any, path: Path) -> str:
        if not isinstance(event, ScalarEvent):
            self._report(_position(event), path, "a key must be text")
            raise _StopReadingError
        if event.anchor is not None or event.tag is not None:
            self._report(_position(event), path, "a key can have neither anchor nor tag")
        key = str(event.value)
        if event.style is None and not isinstance(_plain(key), str):
            self._report(_position(event), path, f'a key must be text: write "{key[:40]}"')
        if not self._check_text(key, _position(event), path):
            raise _StopReadingError
        return key

    def _sequence(self, path: Path) -> list[Any]:
        sequence: list[Any] = []
        while not isinstance(event := next(self._events), SequenceEndEvent):
            sequence.append(self._value(event, (*path, len(sequence))))
        return sequence

    def _scalar(self, event: ScalarEvent, path: Path) -> Any:
        position = _position(event)
        text = str(event.value)
        value = _plain(text) if event.style is None else text
        if isinstance(value, str):
            if not self._check_text(value, position, path):
                return None
            self._note_text(value, position, path, is_quoted=event.style in ("'", '"'))
        elif isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
            self._report(position, path, "the number is too large; at most 9223372036854775807")
            return None
        elif isinstance(value, float) and not math.isfinite(value):
            self._report(position, path, f"{text[:40]} is no finite number")
            return None
        return value

    def _check_text(self, text: str, position: Position, path: Path) -> bool:
        found = _UNUSABLE_CHARACTER.search(text)
        if found:
            message = f"the text holds the character U+{ord(found[0]):04X}: remove it"
            self._report(position, path, message)
        return found is None

    def _note_text(self, value: str, position: Position, path: Path, is_quoted: bool) -> None:
        start = Position(position.line, position.column + is_quoted)
        line = self._lines[start.line - 1] if start.line <= len(self._lines) else ""
        if "\n" not in value and line[start.column - 1 :].startswith(value):
            self._document.texts[path] = start

    def _syntax_problem(self, error: MarkedYAMLError) -> Problem:
        mark = error.problem_mark or error.context_mark
        position = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        context = f" {error.context}" if error.context else ""
        return self._problem(position, (), f"this is not YAML: {error.problem}{context}")

    def _report_alias(self, position: Position, path: Path) -> None:
        """Said at the first of them alone: whoever uses one uses many."""
        if self._has_told_aliases:
            self._document.unreadable.add(format_path(path))
            return
        self._has_told_aliases = True
        what = "anchors and aliases are not supported: write it out"
        self._report(position, path, what)

    def _report(self, position: Position, path: Path, message: str) -> None:
        problem = self._problem(position, path, message)
        self.problems.append(problem)
        self._document.unreadable.add(problem.key)
        if len(self.problems) >= MAX_PROBLEMS:
            raise _StopReadingError

    def _problem(self, position: Position, path: Path, message: str) -> Problem:
        return Problem(
            file=self._file,
            line=position.line,
            column=position.column,
            key=format_path(path),
            message=message,
        )


def _plain(text: str) -> Any:
    """What an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        # Longer ones are too large anyway, and Python refuses to read some of them.
        return int(text) if len(text) < 25 else 2**64
    if _FLOAT.fullmatch(text):
        return float(text)
    return math.inf if _NOT_FINITE.fullmatch(text) else text


def _position(event: Any) -> Position:
    return Position(event.start_mark.line + 1, event.start_mark.column + 1)
