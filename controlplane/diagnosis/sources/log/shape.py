"""Shapes of log lines: how a line is recognised, and what is taken out of it.

A shape has a key: one word that stands in every such line. A line none of whose words is a key is
passed over at once, so that a long log costs one look at the words of each line and not a regular
expression for each shape.

The names of a pattern's groups say what becomes of them:

| group | becomes |
| --- | --- |
| `..._bytes` | a field in bytes, from `2.00 GiB` |
| `..._gib`, `mb` | a field `..._bytes`, from `2.00` |
| `..._ms` | a field `..._seconds`, from `2.00` |
| `seconds`, `..._seconds` | a field in seconds, from `22 secs` |
| `w_...` | a word, as it stands |
| any other | a field, a number |
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.sources.quantity import bytes_of, number_of, seconds_of

WORD = re.compile(r"[#A-Za-z_][A-Za-z0-9_-]*")
"""What counts as a word of a line."""


_UNCOUNTED = re.compile(r"\{\d+(?:,\d*)?\}|\{,\d+\}|\(\?P<\w+>")
"""How often, and names of groups: digits of an expression that it asks for in no text."""


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
    """Words, as `WORD` has them, all of which every such line holds; the rarest first."""
    kind: LogKind
    pattern: re.Pattern[str]
    words: Mapping[str, str] = field(default_factory=dict)
    """What every such line says."""
    engine: str | None = None
    """Who writes it, where only one engine does."""

    @property
    def counts_digits(self) -> bool:
        """Whether it may fit one of two lines that differ in digits alone."""
        return any(map(str.isdigit, _UNCOUNTED.sub("", self.pattern.pattern)))

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
            read = _read(name, value)
            if read is not None:
                fields[read[0]] = read[1]
        return Match(self.kind, fields, words)


def shape(
    key: str, kind: LogKind, pattern: str, engine: str | None = None, /, **words: str
) -> Shape:
    """For tables."""
    return Shape(key, kind, re.compile(pattern), words, engine)


_SCALED = (
    (re.compile(r"(^|_)gib(?=_|$)"), r"\1bytes", 1024.0**3),
    (re.compile(r"(^|_)mb(?=_|$)"), r"\1bytes", 1024.0**2),
    (re.compile(r"(^|_)ms$"), r"\1seconds", 1e-3),
)
"""Names whose unit is in the words of the line and not beside the number."""


def _read(name: str, value: str) -> tuple[str, float] | None:
    """The field's name and value; None where it is no number."""
    for written, meant, factor in _SCALED:
        if written.search(name):
            number = number_of(value)
            return None if number is None else _finite(written.sub(meant, name), number * factor)
    if name.endswith("bytes"):
        number = bytes_of(value)
    elif name.endswith("seconds"):
        number = seconds_of(value)
    else:
        number = number_of(value)
    return None if number is None else _finite(name, number)


def _finite(name: str, number: float) -> tuple[str, float] | None:
    return (name, number) if math.isfinite(number) else None


class ShapeTable:
    """All shapes, found by the words of a line."""

    def __init__(self, shapes: Iterable[Shape]) -> None:
        """Earlier shapes go before later ones."""
        self.shapes = tuple(shapes)
        self._by_key: dict[str, list[tuple[int, Shape, frozenset[str]]]] = {}
        for place, each in enumerate(self.shapes):
            rarest, *others = each.key.split()
            if any(WORD.fullmatch(word) is None for word in (rarest, *others)):
                raise ValueError(f"the key {each.key!r} of a shape is not made of words")
            self._by_key.setdefault(rarest, []).append((place, each, frozenset(others)))
        self.keys = frozenset(self._by_key)

    def candidates(self, words: frozenset[str]) -> tuple[Shape, ...]:
        """Those that a text of these words may be of, in order."""
        found = {
            place: each
            for key in self.keys & words
            for place, each, others in self._by_key[key]
            if others <= words
        }
        return tuple(found[place] for place in sorted(found))

    def match(self, text: str) -> tuple[Shape, Match] | None:
        """The first shape that fits `text`."""
        return first_match(self.candidates(frozenset(WORD.findall(text))), text)

    def shape_of(self, text: str) -> Shape | None:
        """The first shape that fits `text`."""
        found = self.match(text)
        return None if found is None else found[0]


def first_match(shapes: Iterable[Shape], text: str) -> tuple[Shape, Match] | None:
    """Of the first that fits `text`."""
    for each in shapes:
        found = each.match(text)
        if found is not None:
            return each, found
    return None
