"""What one line of a page tells of settings: in the labels of an info metric, or in a gauge that
never moves."""

from dataclasses import dataclass
from functools import cache

from dataplane.engine_metrics.alias import AliasTable, FactAlias, InfoAlias
from dataplane.engine_metrics.exposition import SampleHead
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables import TABLES
from dataplane.engine_metrics.targets import canonical

_NO_SETTINGS = frozenset({"", "None", "null"})
_ABOUT_THE_SERIES = frozenset({"model_name", "engine", "engine_type"})


@dataclass(frozen=True, slots=True)
class SettingSeries:
    """One setting that is a signal, as one page tells it."""

    signal: Signal
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


@dataclass(frozen=True, slots=True)
class SettingsTold:
    """All that one line tells of settings."""

    signals: tuple[SettingSeries, ...]
    texts: tuple[tuple[str, str], ...]
    """By label."""
    key: str
    """Where the value is the setting."""


def settings_in(head: SampleHead) -> SettingsTold | None:
    """None for a line that tells none."""
    name = canonical(head.name)
    info = _infos().get(name)
    if info is not None:
        return _of_labels(head, *info)
    fact = _facts().get(name)
    if fact is None:
        return None
    parts = [head.labels[label] for label in fact.keep if label in head.labels]
    prefix = name.split(":", 1)[-1]
    return SettingsTold((), (), "_".join([prefix, *parts]))


def _of_labels(head: SampleHead, table: AliasTable, info: InfoAlias) -> SettingsTold:
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
    return SettingsTold(tuple(signals), tuple(own), "")


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
