"""Settings that engines export: in the labels of info metrics, and in gauges that never move."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.sources.aliases import TABLES
from controlplane.diagnosis.sources.aliases.alias import AliasTable, FactAlias, InfoAlias
from controlplane.diagnosis.sources.exposition import Sample, SampleHead
from controlplane.diagnosis.sources.facts import facts_of
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.diagnosis.sources.targets import canonical
from dataplane.engine_metrics.signal import Signal

_NO_SETTINGS = frozenset({"", "None", "null"})
_ABOUT_THE_SERIES = frozenset({"model_name", "engine", "engine_type"})


@dataclass(frozen=True, slots=True)
class SettingSeries:
    """One setting that is a signal, as one page tells it."""

    signal: Signal
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(slots=True)
class SettingsReader:
    """Of one endpoint. What was told already is not told again."""

    _said: dict[str, str] = field(default_factory=dict)
    _heads: dict[SampleHead, "_Told | None"] = field(default_factory=dict)

    def read(
        self, samples: Iterable[Sample], at: float
    ) -> tuple[Sequence[SettingSeries], Sequence[Fact]]:
        """Signals of this page, and facts that are new or changed since the last one."""
        signals: list[SettingSeries] = []
        facts: list[Fact] = []
        for sample in samples:
            told = self._heads.get(sample.head, _UNSEEN)
            if told is _UNSEEN:
                told = self._heads[sample.head] = _told(sample.head)
            if told is None:
                continue
            signals += told.signals
            pairs = told.texts or ((told.key, plain_number(sample.value)),)
            facts += self._new(pairs, at)
        return signals, facts

    def _new(self, pairs: Iterable[tuple[str, str]], at: float) -> Iterable[Fact]:
        for key, raw in pairs:
            if self._said.get(key) != raw:
                self._said[key] = raw
                yield from facts_of({key: raw}, at)


@dataclass(frozen=True, slots=True)
class _Told:
    signals: tuple[SettingSeries, ...]
    texts: tuple[tuple[str, str], ...]
    key: str
    """Where the value is the setting."""


_UNSEEN = _Told((), (), "")


def _told(head: SampleHead) -> _Told | None:
    name = canonical(head.name)
    info = _infos().get(name)
    if info is not None:
        return _of_labels(head, *info)
    fact = _facts().get(name)
    if fact is None:
        return None
    parts = [head.labels[label] for label in fact.keep if label in head.labels]
    prefix = name.split(":", 1)[-1]
    return _Told((), (), "_".join([prefix, *parts]))


def _of_labels(head: SampleHead, table: AliasTable, info: InfoAlias) -> _Told:
    rank = ",".join(head.labels[label] for label in table.rank_labels if label in head.labels)
    labels = (("engine", rank),) if rank else ()
    signals = [
        SettingSeries(signal, head.name, labels, value)
        for label, signal in info.signals.items()
        if (value := _number(head.labels.get(label, ""))) is not None
    ]
    own = [
        (label, text)
        for label, text in head.labels.items()
        if text not in _NO_SETTINGS and label not in _ABOUT_THE_SERIES
    ]
    return _Told(tuple(signals), tuple(own), "")


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@cache
def _infos() -> dict[str, tuple[AliasTable, InfoAlias]]:
    return {info.exported: (table, info) for table in TABLES for info in table.infos}


@cache
def _facts() -> dict[str, FactAlias]:
    return {fact.exported: fact for table in TABLES for fact in table.facts}
