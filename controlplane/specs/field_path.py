"""The path of a field, as people write it.

`classes.match`, `spec.classes[0].match` and `classes[].match` name the same field; the keys of a
map may be left out or be any word.
"""

import re
from collections.abc import Sequence
from typing import Any

_ANY_KEY = re.compile(r"\*|<[a-z_]+>")
_INDEX = re.compile(r"\[[0-9]*\]")


def path_words(path: str) -> list[str]:
    """The words of a path: without `spec`, indexes, and what stands for any key."""
    words = [word for word in _INDEX.sub("", path).split(".") if word]
    words = words[1:] if words[:1] == ["spec"] else words
    return ["*" if _ANY_KEY.fullmatch(word) else word for word in words]


def is_same_path(wanted: Sequence[str], known: Sequence[str]) -> bool:
    """A * of `known` takes any word, or none."""
    if not known:
        return not wanted
    if known[0] == "*":
        return is_same_path(wanted, known[1:]) or (
            bool(wanted) and is_same_path(wanted[1:], known[1:])
        )
    return bool(wanted) and wanted[0] == known[0] and is_same_path(wanted[1:], known[1:])


def words_without_keys(path: str) -> list[str]:
    """The shortest spelling: keys of maps left out."""
    return [word for word in path_words(path) if word != "*"]


def spec_at(path: str, value: Any) -> dict[str, Any]:
    """A spec that holds `value` at `path` and nothing else."""
    for part in reversed(path.replace("[]", ".[]").split(".")):
        value = [value] if part == "[]" else {("chat" if part == "*" else part): value}
    whole: dict[str, Any] = value
    return whole
