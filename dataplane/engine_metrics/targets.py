"""What a line of a metrics page tells, decided once by its name and labels."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from dataplane.engine_metrics.alias import Alias, AliasTable
from dataplane.engine_metrics.exposition import SampleHead
from dataplane.engine_metrics.signal import SignalKind
from dataplane.engine_metrics.tables import TABLES


class Role(StrEnum):
    """Which part of a series a sample is."""

    VALUE = ""
    BUCKET = "_bucket"
    SUM = "_sum"
    COUNT = "_count"


@dataclass(frozen=True, slots=True)
class Known:
    """An alias by one of the names that its samples have."""

    table: AliasTable
    alias: Alias
    place: int
    """In its table: the lower, the better."""
    role: Role


@dataclass(frozen=True, slots=True)
class Target:
    """Where a sample belongs."""

    known: Known
    name: str
    """As found on the wire, without a histogram's suffix."""
    labels: tuple[tuple[str, str], ...]
    """Of the series, sorted."""
    copy: tuple[str, ...]
    """Which of several processes that tell the same."""
    is_part: bool
    """One of several parts beside which their total may stand."""
    is_total: bool
    bound: float | None
    """Of a bucket."""


_HISTOGRAM_ROLES = (Role.BUCKET, Role.SUM, Role.COUNT)
_MAX_NAMES = 20_000
"""Remembered; a page may hold any names, and others at each scrape."""
_SCRAPED_BY_RAY = "ray_"
"""Ray puts this before the names of the engines that it serves."""
_APART = {
    "model_name": "model",
    "model": "model",
    "engine_type": "role",
    "node": "replica",
    "exported_instance": "replica",
    "instance": "replica",
    "pod_name": "replica",
    "pod": "replica",
    "replica": "replica",
    "pid": "process",
}
"""Series that differ in these are not added up; where all have the same, it goes. Collectors write
in several labels of whom they scraped; the last of them here counts."""


def targets_of(head: SampleHead) -> tuple[Target, ...]:
    """All that a line with this head tells; none where it is of no interest or unknown."""
    return tuple(
        _target(head, known)
        for known in _known_by_name().get(canonical(head.name), ())
        if known.alias.means(head.labels)
    )


@lru_cache(maxsize=_MAX_NAMES)
def canonical(name: str) -> str:
    """The name by which it is known, where a collector on the way changed it: Ray's prefix, `_` for
    `:`, a counter without `_total`. Unknown names stay."""
    bare = name.removeprefix(_SCRAPED_BY_RAY)
    for candidate in (name, bare, bare.replace("_", ":", 1)):
        for form in (candidate, f"{candidate}_total"):
            if form in _known_by_name() or form in _told_by_labels():
                return form
    return name


def is_known(name: str) -> bool:
    """Of a family: whether some exporter is known to have it."""
    if name in _unread() or canonical(name) in _told_by_labels():
        return True
    return any(canonical(f"{name}{role}") in _known_by_name() for role in Role)


@cache
def _told_by_labels() -> frozenset[str]:
    infos = {info.exported for table in TABLES for info in table.infos}
    return frozenset(infos | {fact.exported for table in TABLES for fact in table.facts})


@cache
def _unread() -> frozenset[str]:
    return frozenset(name for table in TABLES for name in table.unread)


@cache
def _known_by_name() -> Mapping[str, tuple[Known, ...]]:
    by_name: dict[str, list[Known]] = {}
    for table in TABLES:
        for place, alias in enumerate(table.aliases):
            for role in _roles(alias):
                known = Known(table, alias, place, role)
                by_name.setdefault(f"{alias.exported}{role}", []).append(known)
    return {name: tuple(found) for name, found in by_name.items()}


def _roles(alias: Alias) -> Iterable[Role]:
    is_histogram = alias.signal.terms.kind is SignalKind.HISTOGRAM
    return _HISTOGRAM_ROLES if is_histogram else (Role.VALUE,)


def _target(head: SampleHead, known: Known) -> Target:
    labels, table, alias = head.labels, known.table, known.alias
    kept = dict(alias.fixed)
    kept |= {ours: labels[theirs] for theirs, ours in alias.keep.items() if theirs in labels}
    kept |= {ours: labels[theirs] for theirs, ours in _APART.items() if theirs in labels}
    ranks = [labels[label] for label in table.rank_labels if label in labels]
    if ranks:
        kept["engine"] = ",".join(ranks)
    totals = [labels[label] for label in table.total_labels if label in labels]
    return Target(
        known=known,
        name=head.name.removesuffix(known.role),
        labels=tuple(sorted(kept.items())),
        copy=tuple(labels.get(label, "") for label in table.copy_labels),
        is_part=any(totals),
        is_total=bool(totals) and not any(totals),
        bound=_bound(labels) if known.role is Role.BUCKET else None,
    )


def _bound(labels: Mapping[str, str]) -> float | None:
    """None for a bucket without a bound that is a number: it is left out."""
    try:
        bound = float(labels.get("le", ""))
    except ValueError:
        return None
    return None if math.isnan(bound) else bound


def is_read(name: str) -> bool:
    """Of a sample: whether something is read of series with this name."""
    return canonical(name) in _known_by_name() or canonical(name) in _told_by_labels()
