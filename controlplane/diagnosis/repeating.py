"""Words that sentences of evidence repeat, found again where they were told: facts that are no
numbers, changes, and lines of a log. A long line is repeated by its beginning."""

from collections.abc import Iterator

from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.verdict import Told
from controlplane.diagnosis.window import Window

_HEAD = 24
"""Characters by which a line is looked up."""
_ENOUGH = 80
"""Characters: of a longer line sentences repeat as many, or more."""


def repeated_in(window: Window, sentence: str) -> Iterator[Told]:
    """All of them in a sentence."""
    yield from _facts(window, sentence)
    for change in window.changes:
        if change.what in sentence:
            yield _told(window, SourceKind.GATEWAY, "change", change.what, change.at)
    yield from _lines(window, sentence)


def _facts(window: Window, sentence: str) -> Iterator[Told]:
    for fact in window.facts:
        if fact.value is None and fact.key in sentence and f"{fact.key} {fact.raw}" in sentence:
            source = SourceKind.METRICS if fact.place else SourceKind.GATEWAY
            yield _told(window, source, fact.key, fact.raw, fact.at)


def _lines(window: Window, sentence: str) -> Iterator[Told]:
    """The newest of those that read the same."""
    heads = window.once("lines by their heads", lambda: _by_head(window))
    text = " ".join(sentence.split())
    for start in range(len(text) - _HEAD + 1) if heads else ():
        for line, at in heads.get(text[start : start + _HEAD], {}).items():
            if text.startswith(line[:_ENOUGH], start):
                yield _told(window, SourceKind.LOG, "line", line, at)


def _by_head(window: Window) -> dict[str, dict[str, float | None]]:
    """Times by lines, by the beginnings of these. A line without a time belongs to the one above
    it."""
    heads: dict[str, dict[str, float | None]] = {}
    last: float | None = None
    known = len(window.line_times) == len(window.lines)
    for place, written in enumerate(window.lines):
        at = window.line_times[place] if known else None
        last = at if at is not None else last
        line = " ".join(written.split())
        if len(line) >= _HEAD:
            heads.setdefault(line[:_HEAD], {})[line[:_MOST]] = last
    return heads


_MOST = 300
"""Characters of a line; evidence has no more of one."""


def _told(window: Window, source: SourceKind, name: str, text: str, at: float | None) -> Told:
    age = None if at is None else window.end - at
    return Told(source=source, name=name, text=text, at=at, age_seconds=age)
