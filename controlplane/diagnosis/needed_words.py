"""Words that a text must hold, in whatever case, for a regular expression to match it.

A rule asks sixty expressions of every log line, and most of them begin with an alternation, so that
they are tried at each of its characters: minutes for some megabytes. To look for plain words takes
a hundredth of it. What is not understood of an expression needs no words, and costs the search.
"""

import re
from dataclasses import dataclass, field
from functools import lru_cache

_SHORTEST = 2
_ZERO_WIDTH = frozenset("bBAZ")
_CLASSES = frozenset("dDwWsSnrtfv")
_QUANTIFIER = re.compile(r"(?:([*?])|(\+)|\{(\d*)(?:,\d*)?\})[?+]?")
_OPENING = re.compile(r"\?(?::|P<\w+>|(<?[=!]))")


class _NotUnderstoodError(ValueError):
    """Something that is rare in expressions over log lines."""


@lru_cache(maxsize=8192)
def needed_words(pattern: str) -> frozenset[str] | None:
    """One of them, in lower case, is in every text that `pattern` matches whatever the case. None
    where no such words are known."""
    try:
        return _Reading(pattern).alternatives()
    except _NotUnderstoodError:
        return None


@dataclass(slots=True)
class _Branch:
    """One alternative: what of it has to be there."""

    run: str = ""
    found: list[frozenset[str]] = field(default_factory=list)

    def end_run(self) -> None:
        if len(self.run) >= _SHORTEST:
            self.found.append(frozenset({self.run}))
        self.run = ""

    def best(self) -> frozenset[str] | None:
        """The words of which the shortest is longest: they are the rarest."""
        self.end_run()
        return max(self.found, key=lambda words: min(map(len, words)), default=None)


class _Reading:
    """Reads an expression once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._rest = pattern

    def alternatives(self) -> frozenset[str] | None:
        """Up to the end or the bracket that closes the group."""
        words: set[str] | None = set()
        while True:
            best = self._branch()
            words = None if best is None or words is None else words | best
            if not self._rest.startswith("|"):
                return None if words is None else frozenset(words)
            self._rest = self._rest[1:]

    def _branch(self) -> frozenset[str] | None:
        branch = _Branch()
        while self._rest and self._rest[0] not in "|)":
            self._atom(branch)
        return branch.best()

    def _atom(self, branch: _Branch) -> None:
        sign, self._rest = self._rest[0], self._rest[1:]
        if sign == "(":
            self._group(branch)
        elif sign == "[":
            self._skip_class()
            self._is_there()
            branch.end_run()
        elif sign == "\\":
            self._escaped(branch)
        elif sign in "^$":
            return
        elif sign == ".":
            self._is_there()
            branch.end_run()
        else:
            self._literal(sign, branch)

    def _escaped(self, branch: _Branch) -> None:
        sign, self._rest = self._rest[:1], self._rest[1:]
        if sign in _ZERO_WIDTH:
            return
        if sign in _CLASSES or not sign:
            self._is_there()
            branch.end_run()
        elif sign.isalnum():
            raise _NotUnderstoodError(sign)
        else:
            self._literal(sign, branch)

    def _literal(self, sign: str, branch: _Branch) -> None:
        quantifier = _QUANTIFIER.match(self._rest)
        is_there = self._is_there()
        if is_there and sign.isascii():
            branch.run += sign.lower()
        if quantifier is not None or not sign.isascii():
            branch.end_run()

    def _group(self, branch: _Branch) -> None:
        opening = _OPENING.match(self._rest)
        if opening is None and self._rest.startswith("?"):
            raise _NotUnderstoodError(self._rest)
        self._rest = self._rest[opening.end() :] if opening else self._rest
        words = self.alternatives()
        self._rest = self._rest[1:]
        if opening is not None and opening[1]:  # it looks ahead or back, and takes nothing
            return
        branch.end_run()
        if self._is_there() and words is not None:
            branch.found.append(words)

    def _skip_class(self) -> None:
        end = re.match(r"\^?\]?(?:\\.|[^\]\\])*\]", self._rest, re.DOTALL)
        if end is None:
            raise _NotUnderstoodError(self._rest)
        self._rest = self._rest[end.end() :]

    def _is_there(self) -> bool:
        """Whether the atom before has to be there; reads its quantifier."""
        found = _QUANTIFIER.match(self._rest)
        if found is None:
            return True
        self._rest = self._rest[found.end() :]
        return found[1] is None and (found[2] is not None or int(found[3] or 0) > 0)
