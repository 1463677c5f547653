"""From the samples of one page to one value, or one state of a histogram, of each series."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dataplane.engine_metrics.exposition import Sample, SampleHead
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.targets import Known, Role, Target, targets_of

SeriesKey = tuple[Signal, tuple[tuple[str, str], ...]]
"""Signal and labels."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """What one page says of one series, in the unit of the page."""

    known: Known
    name: str
    value: float | None
    """None: a histogram."""
    buckets: Mapping[float, float] = field(default_factory=dict)
    """Cumulative, by upper bound."""
    sum: float = 0.0
    count: float = 0.0
    timestamp: float | None = None
    superseded: tuple["Gathered", ...] = ()
    """The same under older names of the same page."""


@dataclass(slots=True)
class Gatherer:
    """Remembers what heads mean."""

    _targets: dict[SampleHead, tuple[Target, ...]] = field(default_factory=dict)

    def forget(self) -> None:
        """What comes next is looked up anew."""
        self._targets.clear()

    def gather(
        self, samples: Iterable[Sample], engine: str | None = None
    ) -> dict[SeriesKey, Gathered]:
        """By signal and labels; of several names for one signal the best one. `engine`: of others
        nothing is read, for two of them are never added up."""
        by_alias: dict[tuple[SeriesKey, int], list[tuple[Target, Sample]]] = {}
        for sample in samples:
            targets = self._targets.get(sample.head)
            if targets is None:
                targets = self._targets[sample.head] = targets_of(sample.head)
            for target in targets:
                if engine is not None and target.known.table.engine not in (engine, None):
                    continue
                key = (target.known.alias.signal, target.labels)
                by_alias.setdefault((key, target.known.place), []).append((target, sample))
        ranked: dict[SeriesKey, list[tuple[int, Gathered]]] = {}
        for (key, place), told in by_alias.items():
            ranked.setdefault(key, []).append((place, _one(told)))
        return {key: _best(found) for key, found in ranked.items()}


def _best(found: list[tuple[int, Gathered]]) -> Gathered:
    if len(found) == 1:
        return found[0][1]
    best, *rest = (each for _, each in sorted(found, key=lambda pair: pair[0]))
    return Gathered(
        known=best.known,
        name=best.name,
        value=best.value,
        buckets=best.buckets,
        sum=best.sum,
        count=best.count,
        timestamp=best.timestamp,
        superseded=tuple(rest),
    )


def _one(told: list[tuple[Target, Sample]]) -> Gathered:
    """Copies are left out, parts beside their total too; the rest is added up."""
    target = told[0][0]
    if len(told) > 1:
        told = _without_copies(_without_parts(told))
    stamps = [each.timestamp for _, each in told if each.timestamp is not None]
    stamp = max(stamps) if stamps else None
    if target.known.role is not Role.VALUE:
        return _histogram(told, stamp)
    whole = whole_of(target.known.alias.signal, [each.value for _, each in told])
    return Gathered(target.known, target.name, whole, timestamp=stamp)


def whole_of(signal: Signal, values: Sequence[float]) -> float:
    """Of what several tell of one signal: their sum, or what is counted by nobody twice; no number
    where one of them is none."""
    if len(values) == 1:
        return values[0]
    if not all(map(math.isfinite, values)):
        return math.nan
    return max(values) if signal.terms.is_whole_greatest else math.fsum(values)


def _without_parts(told: list[tuple[Target, Sample]]) -> list[tuple[Target, Sample]]:
    if any(target.is_total for target, _ in told):
        return [(target, sample) for target, sample in told if not target.is_part]
    return told


def _without_copies(told: list[tuple[Target, Sample]]) -> list[tuple[Target, Sample]]:
    first = min(target.copy for target, _ in told)
    return [(target, sample) for target, sample in told if target.copy == first]


def _histogram(told: list[tuple[Target, Sample]], stamp: float | None) -> Gathered:
    buckets: dict[float, float] = {}
    totals = {Role.SUM: 0.0, Role.COUNT: 0.0}
    for target, sample in told:
        if target.bound is not None:
            buckets[target.bound] = buckets.get(target.bound, 0.0) + sample.value
        elif target.known.role in totals:
            totals[target.known.role] += sample.value
    target = told[0][0]
    return Gathered(
        target.known,
        target.name,
        None,
        buckets,
        totals[Role.SUM],
        totals[Role.COUNT],
        stamp,
    )
