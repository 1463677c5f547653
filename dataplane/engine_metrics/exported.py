"""Whether an engine exports what is asked of it: an unknown name is an error and never a zero."""

import difflib
import re
from collections.abc import Collection, Iterable

from dataplane.engine_metrics.alias import Alias, AliasTable


class MetricNotExportedError(LookupError):
    """A metric that this engine, or this version of it, does not have."""

    def __init__(self, name: str, exporter: str, suggested: tuple[str, ...]) -> None:
        self.name = name
        self.exporter = exporter
        self.suggested = suggested
        """What it exports instead, the best first; empty: nothing that tells the same."""
        hint = f"; it exports {' or '.join(suggested)}" if suggested else ""
        super().__init__(f"{exporter} does not export {name}{hint}")


def exported_by_version(table: AliasTable, version: str) -> frozenset[str]:
    """What that version of the engine exports, as far as renames are known.

    A name that took another's place is there from the version on in which the other one goes.
    Raises ValueError for what is no version, such as `main`.
    """
    number = _number(version)
    return frozenset(
        alias.exported
        for alias in table.aliases
        if (alias.until is None or number < _number(alias.until))
        and all(number >= _number(until) for until in _ends_before(alias, table))
    )


def require_exported(
    name: str, table: AliasTable, exported: Collection[str], exporter: str | None = None
) -> None:
    """`name` is one of `exported`: of a page, or of a version.

    `exporter` is what the message calls it; None: its engine. Raises MetricNotExportedError, with
    the names under which what `name` tells is exported.
    """
    if name in exported:
        return
    meant = [alias for alias in table.aliases if alias.exported == name]
    told = [
        other.exported
        for alias in meant
        for other in table.aliases
        if other.exported in exported
        and (other.is_another_name_of(alias) or other.signal is alias.signal)
    ]
    suggested = told or ([] if meant else _spelled_alike(name, exported))
    unique = tuple(dict.fromkeys(suggested))
    raise MetricNotExportedError(name, exporter or table.engine or "the exporter", unique)


def _ends_before(alias: Alias, table: AliasTable) -> Iterable[str]:
    """The versions that ended names of the same, of which this one is the newer."""
    if alias.until is not None:
        return
    for other in table.aliases:
        if other.until is not None and alias.is_another_name_of(other):
            yield other.until


def _spelled_alike(name: str, exported: Collection[str]) -> list[str]:
    return difflib.get_close_matches(name, sorted(exported), n=2)


def _number(version: str) -> tuple[int, ...]:
    found = re.match(r"v?(\d+(?:\.\d+)*)", version)
    if found is None:
        raise ValueError(f"{version!r} is no version such as 0.12.1")
    return tuple(int(part) for part in found[1].split("."))
