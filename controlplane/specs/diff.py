"""What differs between two revisions of a document, in its own words. Pure.

Both documents are in canonical form, so that `0.3s` and `300ms` never differ. A path names a
place as a person would: `classes[interactive].max_queue`. Items of a list that have a name are
compared by it wherever they stand; that they changed places is a difference of its own, since
the first class that matches takes the request. A list of plain values is one value.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_KEYS = ("name", "signal")
"""Fields that tell the items of a list apart, the first that every item has."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9_./@%+-][A-Za-z0-9_./@%+ -]*")
_NOTHING: Any = object()


class ChangeKind(StrEnum):
    """How a place differs."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    REORDERED = "reordered"
    """The same named items in another order; `before` and `after` are their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldChange:
    """One place that differs. None: there is nothing on that side."""

    path: str
    kind: ChangeKind
    before: Any = None
    after: Any = None

    @property
    def before_text(self) -> str:
        """As it would be written in a document, on one line."""
        return "" if self.kind is ChangeKind.ADDED else flow_text(self.before)

    @property
    def after_text(self) -> str:
        """As it would be written in a document, on one line."""
        return "" if self.kind is ChangeKind.REMOVED else flow_text(self.after)

    def __str__(self) -> str:
        match self.kind:
            case ChangeKind.ADDED:
                return f"+ {self.path}: {self.after_text}"
            case ChangeKind.REMOVED:
                return f"- {self.path}: {self.before_text}"
            case ChangeKind.REORDERED:
                return f"{self.path}, order: {self.before_text} -> {self.after_text}"
        return f"{self.path}: {self.before_text} -> {self.after_text}"


def diff_documents(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None
) -> list[FieldChange]:
    """What turns `before` into `after`, in the order of their fields; paths start at the spec.

    None stands for a document that does not exist: then every field was added, or removed.
    Kind and name are not compared.
    """
    old = {} if before is None else before.get("spec", {})
    new = {} if after is None else after.get("spec", {})
    return list(_mapping("", old, new))


def flow_text(value: Any) -> str:
    """A value on one line, as YAML would have it between braces."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_scalar(key)}: {flow_text(each)}" for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(flow_text(each) for each in value)}]"
    return _scalar(value)


def _differences(path: str, before: Any, after: Any) -> Iterator[FieldChange]:
    if before is _NOTHING:
        yield FieldChange(path=path, kind=ChangeKind.ADDED, after=after)
    elif after is _NOTHING:
        yield FieldChange(path=path, kind=ChangeKind.REMOVED, before=before)
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        yield from _mapping(path, before, after)
    elif (key := _common_key(before, after)) is not None:
        yield from _named_items(path, before, after, key)
    elif not _is_same(before, after):
        yield FieldChange(path=path, kind=ChangeKind.CHANGED, before=before, after=after)


def _mapping(
    path: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Iterator[FieldChange]:
    for key in _in_order(list(before), list(after)):
        yield from _differences(
            _join(path, key), before.get(key, _NOTHING), after.get(key, _NOTHING)
        )


def _named_items(
    path: str, before: Sequence[Any], after: Sequence[Any], key: str
) -> Iterator[FieldChange]:
    old = {str(item[key]): item for item in before}
    new = {str(item[key]): item for item in after}
    kept_old = [name for name in old if name in new]
    kept_new = [name for name in new if name in old]
    if kept_old != kept_new:
        yield FieldChange(path=path, kind=ChangeKind.REORDERED, before=list(old), after=list(new))
    for name in _in_order(list(old), list(new)):
        yield from _differences(
            f"{path}[{_quoted(name)}]", old.get(name, _NOTHING), new.get(name, _NOTHING)
        )


def _common_key(before: Any, after: Any) -> str | None:
    """The field that names every item of both lists, each name once; None when none does."""
    if not (isinstance(before, list) and isinstance(after, list)) or not (before or after):
        return None
    for key in _KEYS:
        sides = [
            [item.get(key) if isinstance(item, Mapping) else None for item in side]
            for side in (before, after)
        ]
        if all(_are_names(names) for names in sides):
            return key
    return None


def _are_names(names: list[Any]) -> bool:
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _is_same(before: Any, after: Any) -> bool:
    # True == 1 in Python and nowhere else; 1 and 1.0 are the same number in a document.
    if isinstance(before, bool) or isinstance(after, bool):
        return before is after
    if isinstance(before, list) and isinstance(after, list):
        return len(before) == len(after) and all(map(_is_same, before, after))
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return before.keys() == after.keys() and all(
            _is_same(before[key], after[key]) for key in before
        )
    return bool(before == after)


def _in_order(before: list[str], after: list[str]) -> list[str]:
    """Every name once: as the newer has them, what is gone where it was before."""
    names = list(after)
    for index, name in enumerate(before):
        if name not in after:
            follows = next((each for each in reversed(before[:index]) if each in names), None)
            names.insert(names.index(follows) + 1 if follows is not None else 0, name)
    return names


def _join(path: str, key: str) -> str:
    if not _PLAIN_KEY.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def _quoted(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _scalar(value: Any) -> str:
    if isinstance(value, str) and _PLAIN_TEXT.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)
