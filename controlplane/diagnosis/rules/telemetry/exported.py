"""What an engine exports, by whatever name."""

import difflib
import re
from collections.abc import Iterable

from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.tables import TABLES

_PARTS = ("_bucket", "_sum", "_count", "_total", "_created")
_NEAR = 0.6
"""Of `difflib`: `kv_cache_usage_ratio` and `kv_cache_usage_perc` are nearer than that."""


def is_exported(name: str, window: Window) -> bool:
    """Under this name, as whichever part of a histogram or counter."""
    stems = {_stem(each) for each in window.exported_names}
    return name in window.exported_names or _stem(name) in stems


def _stem(name: str) -> str:
    for part in _PARTS:
        name = name.removesuffix(part)
    return name


def families_of(names: Iterable[str]) -> set[str]:
    """Each histogram once."""
    return {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in names}


def now_called(name: str, window: Window) -> str | None:
    """What the engine exports instead: under the same meaning, else the nearest name."""
    for other in other_names_of(name):
        if other in window.exported_names:
            return other
    near = difflib.get_close_matches(name, sorted(window.exported_names), n=1, cutoff=_NEAR)
    return near[0] if near else None


def other_names_of(name: str) -> tuple[str, ...]:
    """What other versions of an engine export under the same meaning."""
    return tuple(
        other.exported
        for table in TABLES
        for each in table.aliases
        if _stem(each.exported) == _stem(name)
        for other in table.aliases
        if other.is_another_name_of(each)
    )
