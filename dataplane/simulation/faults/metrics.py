"""Faults between an engine and who scrapes it. The engine itself is well.

Patterns are shell wildcards over exported names: `*cache_usage*`. A counter is matched with
its `_total`, a histogram without `_bucket`.
"""

import fnmatch
from dataclasses import dataclass, field, replace
from enum import StrEnum

from dataplane.simulation.faults.fault import ReplicaFault
from dataplane.simulation.observer.exposition import Family, Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsFault(ReplicaFault):
    """A fault of what is exported."""

    series: tuple[str, ...] = ("*",)
    """Patterns of the names that are hit."""

    def matches(self, family: Family) -> bool:
        """Whether the family is among those that are hit."""
        return any(fnmatch.fnmatchcase(family.name, pattern) for pattern in self.series)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleMetrics(MetricsFault):
    """The share `intensity` of scrapes get what was said last, to the byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingSeries(MetricsFault):
    """The share `intensity` of the matching names is not exported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedSeries(MetricsFault):
    """The share `intensity` of the matching names have another one.

    `old` in a name becomes `new`; where neither is given the name gets the suffix `_v2`.
    """

    old: str = ""
    new: str = ""

    def rename(self, family: Family) -> Family:
        """Under the new name; itself where `old` is not in it."""
        if self.old:
            return family.renamed(family.name.replace(self.old, self.new))
        stem = family.name.removesuffix("_total")
        return family.renamed(f"{stem}_v2{family.name[len(stem) :]}")


class Lie(StrEnum):
    """How a value is wrong."""

    FACTOR = "factor"
    """Gauges are 1 + intensity times too high."""
    PERCENT = "percent"
    """The share `intensity` of the gauges that are ratios say percent."""
    STUCK = "stuck"
    """The share `intensity` of scrapes get the last value of the matching names."""
    RESET = "reset"
    """Counters lose the share `intensity` of what they had when it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LyingMetrics(MetricsFault):
    """The values of the matching names are wrong, in the way that `how` says."""

    how: Lie = Lie.FACTOR


@dataclass(slots=True)
class FaultyMetrics:
    """A FamilyFilter: the faults of what one replica exports, in order."""

    faults: list[MetricsFault]
    _last: dict[int, dict[str, Family]] = field(default_factory=dict)
    """By position of the fault: what was passed on last, by name."""
    _base: dict[int, dict[tuple[object, ...], float]] = field(default_factory=dict)
    """By position of the fault: the values of counters when it began, of those that the process
    of that time still counts."""
    _true: dict[int, dict[tuple[object, ...], float]] = field(default_factory=dict)
    """By position of the fault: the values of the same counters as they came last."""

    def pass_on(self, families: list[Family], target: str, at: float) -> list[Family]:
        """What is left of the truth at `at`. The faults are those of `target`."""
        for position, fault in enumerate(self.faults):
            families = self._apply(position, fault, families, at)
        return families

    def _apply(
        self, position: int, fault: MetricsFault, families: list[Family], at: float
    ) -> list[Family]:
        is_active = fault.is_active(at)
        match fault:
            case StaleMetrics():
                return self._hold(position, fault, families, at)
            case LyingMetrics(how=Lie.STUCK):
                return self._hold(position, fault, families, at)
            case LyingMetrics(how=Lie.RESET):
                return self._reset(position, fault, families, at)
            case MissingSeries() if is_active:
                return [f for f in families if not _is_hit(fault, f)]
            case RenamedSeries() if is_active:
                return [fault.rename(f) if _is_hit(fault, f) else f for f in families]
            case LyingMetrics() if is_active:
                return [_distort(fault, f) if fault.matches(f) else f for f in families]
        return families

    def _hold(
        self, position: int, fault: MetricsFault, families: list[Family], at: float
    ) -> list[Family]:
        """The last ones again, where the scrape is hit."""
        last = self._last.setdefault(position, {})
        if last and fault.is_active(at) and fault.hits(at):
            return [last.get(f.name, f) if fault.matches(f) else f for f in families]
        last.clear()
        last.update({f.name: f for f in families})
        return families

    def _reset(
        self, position: int, fault: MetricsFault, families: list[Family], at: float
    ) -> list[Family]:
        """A counter that was reset stays so: what it lost does not come back."""
        if at < fault.at:
            return families
        counters = [f for f in families if f.kind != "gauge" and fault.matches(f)]
        if position not in self._base:
            self._base[position] = {_key(s): s.value for f in counters for s in f.samples}
        base, true = self._base[position], self._true.setdefault(position, {})
        for sample in (s for f in counters for s in f.samples):
            key = _key(sample)
            if sample.value < true.get(key, 0.0):
                base.pop(key, None)  # another process counts from 0: nothing of it was lost
            true[key] = sample.value
        lost = min(1.0, fault.intensity)
        return [_reduced(f, base, lost) if f in counters else f for f in families]


def _is_hit(fault: MetricsFault, family: Family) -> bool:
    return fault.matches(family) and fault.hits(family.name)


def _distort(fault: LyingMetrics, family: Family) -> Family:
    if family.kind != "gauge":
        return family
    if fault.how is Lie.FACTOR:
        return family.scaled(1 + fault.intensity)
    is_ratio = family.name.endswith(("_perc", "_usage", "_ratio", "_rate"))
    return family.scaled(100) if is_ratio and fault.hits(family.name) else family


def _reduced(family: Family, base: dict[tuple[object, ...], float], lost: float) -> Family:
    samples = tuple(
        replace(s, value=max(0.0, s.value - lost * base.get(_key(s), 0.0))) for s in family.samples
    )
    return replace(family, samples=samples)


def _key(sample: Sample) -> tuple[object, ...]:
    return (sample.name, sample.labels)
