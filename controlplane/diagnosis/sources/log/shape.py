"""Shapes of log lines: how a line is recognised, and what is taken out of it.

A shape has a key: one word that stands in every such line. A line none of whose words is a key is
passed over at once, so that a long log costs one look at the words of each line and not a regular
expression for each shape.

The names of a pattern's groups say what becomes of them:

| group | becomes |
| --- | --- |
| `..._bytes` | a field in bytes, from `2.00 GiB` |
| `..._gib` | a field `..._bytes`, from `2.00` |
| `seconds`, `..._seconds` | a field in seconds, from `22 secs` |
| `w_...` | a word, as it stands |
| any other | a field, a number |
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.log.quantity import bytes_of, number_of, seconds_of

WORD = re.compile(r"[#A-Za-z_][A-Za-z0-9_-]*")
"""What counts as a word of a line."""


@dataclass(frozen=True, slots=True)
class Match:
    """What a shape found in a line."""

    kind: LogKind
    fields: Mapping[str, float]
    words: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of line. The first shape of a table that fits a line is taken."""

    key: str
    """A word, as `WORD` has it, that every such line holds."""
    kind: LogKind
    pattern: re.Pattern[str]
    words: Mapping[str, str] = field(default_factory=dict)
    """What every such line says."""
    engine: str | None = None
    """Who writes it, where only one engine does."""

    def match(self, text: str) -> Match | None:
        """None where `text` is no such line."""
        found = self.pattern.search(text)
        if found is None:
            return None
        fields: dict[str, float] = {}
        words = dict(self.words)
        for name, value in found.groupdict().items():
            if value is None:
                continue
            if name.startswith("w_"):
                words[name[2:]] = value.strip()
                continue
            number = _read(name, value)
            if number is not None:
                fields[name.replace("_gib", "_bytes")] = number
        return Match(self.kind, fields, words)


def shape(
    key: str, kind: LogKind, pattern: str, engine: str | None = None, /, **words: str
) -> Shape:
    """For tables."""
    return Shape(key, kind, re.compile(pattern), words, engine)


def _read(name: str, value: str) -> float | None:
    if name.endswith("bytes"):
        return bytes_of(value)
    if name.endswith("_gib"):
        return bytes_of(f"{value} GiB")
    if name.endswith("seconds"):
        return seconds_of(value)
    return number_of(value)


class ShapeTable:
    """All shapes, found by the words of a line."""

    def __init__(self, shapes: Iterable[Shape]) -> None:
        """Earlier shapes go before later ones."""
        self._by_key: dict[str, list[tuple[int, Shape]]] = {}
        for place, each in enumerate(shapes):
            if WORD.fullmatch(each.key) is None:
                raise ValueError(f"the key {each.key!r} of a shape is no single word")
            self._by_key.setdefault(each.key, []).append((place, each))
        self.keys = frozenset(self._by_key)

    def match(self, text: str, words: Iterable[str]) -> tuple[Shape, Match] | None:
        """The first shape that fits `text`, whose words are `words`."""
        candidates = [
            candidate for key in self.keys.intersection(words) for candidate in self._by_key[key]
        ]
        candidates.sort(key=lambda candidate: candidate[0])
        for _, each in candidates:
            found = each.match(text)
            if found is not None:
                return each, found
        return None
