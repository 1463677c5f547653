"""How load is spread over replicas, ranks or workers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.course import early, late
from controlplane.diagnosis.views.told import number_of, numbers_in, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

PLACES = ("replica", "instance", "pod", "target", "engine", "dp_rank", "rank", "worker", "node")
"""Labels that name a place, the widest first."""
_PLACE = r"\b(replica|engine|rank|worker|node|pod|instance|dp|gpu|host|backend|server|shard)\b"
_LISTED = re.compile(r"\[?\s*\d+(?:\.\d+)?(?:\s*[/,|;]\s*\d+(?:\.\d+)?)+\s*\]?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One figure by place, of late, and before where it is known."""

    name: str
    """Of what it counts."""
    by_place: Mapping[str, float]
    before: Mapping[str, float]
    seconds: float
    """Over which it was read; 0 for one reading."""
    says: str
    series: tuple[Series, ...] = ()
    """What it is read from; empty for what was told."""

    @property
    def total(self) -> float:
        """Over all places."""
        return sum(self.by_place.values())

    @property
    def top(self) -> str:
        """The place that has most."""
        return max(self.by_place, key=lambda place: self.by_place[place])

    @property
    def top_share(self) -> float:
        """Of the whole, what the place with most has."""
        return max(self.by_place.values()) / self.total if self.total > 0 else 0.0

    @property
    def least(self) -> float:
        """Of all places."""
        return min(self.by_place.values())

    @property
    def mean(self) -> float:
        """A fair share."""
        return self.total / len(self.by_place)

    @property
    def idle(self) -> tuple[str, ...]:
        """Places with nothing."""
        return tuple(place for place, value in self.by_place.items() if value == 0)

    @property
    def was_even(self) -> bool:
        """Before, where that is known."""
        values = list(self.before.values())
        return (
            len(values) > 1 and sum(values) > 0 and max(values) <= 1.5 * sum(values) / len(values)
        )


def spread_of(window: Window, signal: Signal, pattern: str = "") -> Spread | None:
    """Of a signal that has a series for each place, else of facts for each place. None for fewer
    than two places."""
    found = _of_series(window.all_series(signal))
    return found if found is not None or not pattern else _of_facts(told_all(window, pattern))


def _of_series(series: tuple[Series, ...]) -> Spread | None:
    for label in PLACES:
        placed = [each for each in series if label in each.labels]
        by_place: dict[str, list[Series]] = {}
        for each in placed:
            by_place.setdefault(each.labels[label], []).append(each)
        if len(by_place) < 2:
            continue
        seconds = max(each.span_seconds for each in placed)
        latest = {place: sum(late(each) for each in them) for place, them in by_place.items()}
        before = {place: sum(early(each) for each in them) for place, them in by_place.items()}
        has_before = any(len(each.readings) > 1 for each in placed)
        name = placed[0].origin.name
        return Spread(
            name=name,
            by_place=latest,
            before=before if has_before else {},
            seconds=seconds,
            says=_says(
                name,
                label,
                _as_written(by_place, latest, -1),
                _as_written(by_place, before, 0) if has_before else {},
            ),
            series=tuple(placed),
        )
    return None


def _as_written(
    by_place: Mapping[str, list[Series]], values: Mapping[str, float], index: int
) -> dict[str, str]:
    """By its source, where a place's figure is one reading and no mean or sum of several."""
    return {
        place: them[0].readings[index].raw
        if len(them) == 1 and len(them[0].readings) < _MEAN_FROM
        else f"{values[place]:.4g}"
        for place, them in by_place.items()
    }


_MEAN_FROM = 8
"""Readings, of which the first and the last quarter are two or more."""


def _says(name: str, label: str, latest: Mapping[str, str], before: Mapping[str, str]) -> str:
    values, old = "/".join(latest.values()), "/".join(before.values())
    places = ", ".join(latest)
    course = f"{old} -> {values}" if before and old != values else values
    return f"{name} {course} by {label} ({places})"


def _of_facts(facts: tuple[Fact, ...]) -> Spread | None:
    return _of_list(facts) or _of_keys(facts)


def _of_list(facts: tuple[Fact, ...]) -> Spread | None:
    """`running: 27/5/0/0`, also at two times."""
    lists = [
        (fact, numbers_in(fact.raw.replace("/", " / ")))
        for fact in facts
        if fact.value is None and _LISTED.search(fact.raw)
    ]
    lists = [(fact, values) for fact, values in lists if len(values) > 1]
    if not lists:
        return None
    fact, values = lists[-1]
    same = [other for told, other in lists[:-1] if told.key == fact.key]
    before = same[0] if same and len(same[0]) == len(values) else ()
    says = f"{fact.key} {fact.raw}"
    if before:
        says = f"{fact.key} {lists[0][0].raw} -> {fact.raw}"
    return Spread(
        name=fact.key,
        by_place={str(index): value for index, value in enumerate(values)},
        before={str(index): value for index, value in enumerate(before)},
        seconds=fact.at - lists[0][0].at if before else 0.0,
        says=says,
    )


def _of_keys(facts: tuple[Fact, ...]) -> Spread | None:
    """`running_replica_a: 27`, `running_replica_b: 0`: keys that differ in the place alone."""
    groups: dict[str, dict[str, list[Fact]]] = {}
    for fact in facts:
        if re.search(_NO_PLACES, plain(fact.key)):
            continue
        if fact.part is not None and fact.value is not None:
            stem, place = fact.key[: -len(fact.part) - 1], fact.part
        else:
            split = _apart(plain(fact.key))
            if split is None or number_of(fact) is None:
                continue
            stem, place = split
        groups.setdefault(stem, {}).setdefault(place, []).append(fact)
    groups = {stem: places for stem, places in groups.items() if len(places) > 1}
    if not groups:
        return None
    stem, places = max(groups.items(), key=lambda item: (len(item[1]), _unevenness(item[1])))
    latest = {place: number_of(told[-1]) or 0.0 for place, told in places.items()}
    before = {place: number_of(told[0]) or 0.0 for place, told in places.items()}
    moments = [fact.at for told in places.values() for fact in told]
    has_before = any(len(told) > 1 for told in places.values())
    says = ", ".join(f"{told[-1].key} {told[-1].raw}" for told in places.values())
    return Spread(
        name=stem,
        by_place=latest,
        before=before if has_before else {},
        seconds=max(moments) - min(moments),
        says=says,
    )


def _unevenness(places: Mapping[str, list[Fact]]) -> float:
    """The share of the place with most; nothing for a handful, which cannot be even."""
    values = [number_of(told[-1]) or 0.0 for told in places.values()]
    return max(values) / sum(values) if sum(values) >= _FEWEST * len(values) else 0.0


_FEWEST = 2.0
_NO_PLACES = (
    r"\b(models?|tenants?|users?|keys?|callers?|customers?|clients?|scripts?|jobs?|bench\w*|status"
    r"|codes?|types?|kinds?|loras?|adapters?|priority|class|routes?|paths?|tests?|variants?)\b"
)
"""Of which some have more than others by their nature."""
_NUMBERED = r"\b(prefill|decode|endpoint|upstream|target|box|machine) (\d{1,2}|[a-d])\b"


def _apart(key: str) -> tuple[str, str] | None:
    """The key without its place, and the place."""
    found = re.search(rf"{_PLACE} ?([a-z]\b|\d+|[a-z]*\d+)", key)
    if found is None:
        found = re.search(_NUMBERED, key)
    if found is None:
        found = re.search(r"(?<= )[a-h](?= |$)", key)
    if found is None:
        found = re.search(r"\b(?!p\d\d)([a-z]{1,12})(\d{1,2})\b", key)
    if found is None:
        return None
    return f"{key[: found.start()]}*{key[found.end() :]}", found[0]
