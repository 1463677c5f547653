"""One scrape of an engine, for who wants a few figures of it now.

An engine's exposition is long, and most of it are histograms' buckets: only the lines of what is
wanted are read. What is not there, or is no number, is None and never 0.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from dataplane.engine_metrics.alias import AliasTable
from dataplane.engine_metrics.exposition import ExpositionReader, Sample
from dataplane.engine_metrics.gathering import Gatherer, whole_of
from dataplane.engine_metrics.setting import settings_in
from dataplane.engine_metrics.signal import Signal, SignalKind

_MAX_LINES = 4096
"""Of the wanted names: a hundred ranks tell each of ten gauges for a few models."""

ByPart = Mapping[str, tuple[float, ...]]
"""Values by the engine that tells them."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """What was wanted, in the units of the signals; of a histogram how often it was observed."""

    told: Mapping[Signal, ByPart]

    @property
    def parts(self) -> tuple[str, ...]:
        """The engines side by side behind this endpoint, by their rank; ("",) where it is one."""
        return tuple(sorted({part for by_part in self.told.values() for part in by_part})) or ("",)

    def total(self, signal: Signal, part: str | None = None) -> float | None:
        """Of all engines or of one, a ratio's the greatest; None where there is none, or one is no
        number."""
        by_part = self.told.get(signal, {})
        values = [value for each, told in by_part.items() if part in (None, each) for value in told]
        whole = whole_of(signal, values) if values else math.nan
        return whole if math.isfinite(whole) else None

    def count(self, signal: Signal, part: str | None = None) -> int | None:
        """The same, in whole numbers; None also below 0."""
        total = self.total(signal, part)
        return None if total is None or total < 0 else round(total)


def read_scrape(table: AliasTable, text: str, signals: Collection[Signal]) -> Scrape:
    """What `text` tells of `signals`. Raises ValueError for lines that no exposition has, and for
    more of them than any engine tells."""
    names = _names(table, frozenset(signals))
    lines = [line for line in text.split("\n") if _name(line) in names]
    if len(lines) > _MAX_LINES:
        raise ValueError(f"{len(lines)} samples of what a few say in any engine")
    page = ExpositionReader().read("\n".join([*lines, ""]))
    if page.bad_lines:
        raise ValueError(f"{page.bad_lines[0].line[:80]}: {page.bad_lines[0].why}")
    told = _set(page.samples) | _gauged(page.samples)
    return Scrape({signal: told[signal] for signal in signals if signal in told})


def _names(table: AliasTable, signals: frozenset[Signal]) -> frozenset[str]:
    """Of the samples that tell them."""
    found = {
        f"{alias.exported}_count"
        if alias.signal.terms.kind is SignalKind.HISTOGRAM
        else alias.exported
        for alias in table.aliases
        if alias.signal in signals
    }
    infos = {each.exported for each in table.infos if not signals.isdisjoint(each.signals.values())}
    return frozenset(found | infos)


def _name(line: str) -> str:
    return line.partition("{")[0].partition(" ")[0]


def _gauged(samples: Iterable[Sample]) -> dict[Signal, dict[str, tuple[float, ...]]]:
    told: dict[Signal, dict[str, tuple[float, ...]]] = {}
    for (signal, labels), each in Gatherer().gather(samples).items():
        value = each.count if each.value is None else each.value * each.known.alias.factor
        by_part = told.setdefault(signal, {})
        part = dict(labels).get("engine", "")
        by_part[part] = (*by_part.get(part, ()), value)
    return told


def _set(samples: Iterable[Sample]) -> dict[Signal, dict[str, tuple[float, ...]]]:
    """What the labels of info series say, for what no gauge tells."""
    told: dict[Signal, dict[str, tuple[float, ...]]] = {}
    for sample in samples:
        settings = settings_in(sample.head)
        for each in settings.signals if settings is not None else ():
            part = dict(each.labels).get("engine", "")
            told.setdefault(each.signal, {})[part] = (each.value,)
    return told
