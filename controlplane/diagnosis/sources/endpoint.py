"""One endpoint over time: what its pages told, as signals with doubts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import (
    HistogramReading,
    HistogramSeries,
    Origin,
    Reading,
    Series,
    SourceKind,
)
from controlplane.diagnosis.sources.derived import derived
from controlplane.diagnosis.sources.engine_bound import refuse_many_engines
from controlplane.diagnosis.sources.histogram_states import state_of
from controlplane.diagnosis.sources.part import Part
from controlplane.diagnosis.sources.plain_number import plain_number
from controlplane.diagnosis.sources.settings import SettingsReader
from controlplane.diagnosis.sources.trust import (
    counters,
    presence,
    stillness,
    timestamps,
    values,
)
from controlplane.diagnosis.window import Doubt, DoubtKind, EngineName
from dataplane.engine_metrics.alias import AliasTable
from dataplane.engine_metrics.exposition import Sample
from dataplane.engine_metrics.gathering import Gatherer, SeriesKey
from dataplane.engine_metrics.signal import Signal, SignalKind
from dataplane.engine_metrics.tables import TABLES
from dataplane.engine_metrics.targets import canonical

OUR_OWN = {
    "pilothouse_gateway": "pilothouse gateway",
    "pilothouse_controlplane": "pilothouse control plane",
}
"""Pages of ours that are no engine's, by what their names begin with."""
_ONLY_WHERE_SEVERAL = ("engine", "model", "role")
"""Labels that say nothing where all series of an endpoint have the same."""
_TELLING_ROLES = frozenset({"prefill", "decode"})
"""Of an engine that does half of the work; another endpoint has the other half."""

Labels = tuple[tuple[str, str], ...]
T = TypeVar("T", Series, HistogramSeries)


@dataclass(slots=True)
class Endpoint:
    """Takes pages in time order; `tell` says what they told in all."""

    labels: Mapping[str, str]
    """Its own, which all its series get."""
    place: str
    kind: SourceKind
    gatherer: Gatherer
    _told: dict[SeriesKey, list[presence.At]] = field(default_factory=dict)
    _settings: dict[SeriesKey, tuple[str, list[Reading]]] = field(default_factory=dict)
    _settings_reader: SettingsReader = field(default_factory=SettingsReader)
    _facts: list[Fact] = field(default_factory=list)
    _doubts: list[Doubt] = field(default_factory=list)
    _names: set[str] = field(default_factory=set)
    _last_names: frozenset[str] = frozenset()
    _moments: list[float] = field(default_factory=list)
    _first_engine: str | None = None
    _other_engines: set[str] = field(default_factory=set)
    """That were seen under the same address, and are not read."""

    def take(self, samples: Sequence[Sample], names: frozenset[str], at: float) -> None:
        """The page of `at`. Raises TooManyEnginesError."""
        self._moments.append(at)
        if names != self._last_names:
            self._note_engines(names)
        self._names |= names
        self._last_names = names
        found = self.gatherer.gather(samples, self._first_engine)
        refuse_many_engines((labels for _, labels in found), self.place)
        for key, gathered in found.items():
            self._told.setdefault(key, []).append(presence.At(at, gathered))
        settings, facts = self._settings_reader.read(samples, at)
        for each in settings:
            _, readings = self._settings.setdefault((each.signal, each.labels), (each.name, []))
            readings.append(Reading(at, each.value, plain_number(each.value)))
        self._facts += (replace(fact, place=self.place) for fact in facts)

    def tell(self) -> Part:
        """All of it."""
        needless = _needless(self._told)
        series: list[Series] = []
        histograms: list[HistogramSeries] = []
        for (signal, labels), told in self._told.items():
            self._doubts += presence.renamed(told)
            self._doubts += presence.disagreeing(told)
            kept = self._kept(labels, needless)
            if signal.terms.kind is SignalKind.HISTOGRAM:
                histograms += self._histogram(signal, kept, told)
            else:
                series += self._series(signal, kept, told)
        series += self._from_settings(series, needless)
        series += derived(series)
        self._doubt(series, histograms)
        return Part(
            series=tuple(series),
            histograms=tuple(histograms),
            facts=tuple(self._facts),
            doubts=tuple(dict.fromkeys(self._doubts)),
            exported_names=frozenset(self._names),
            engine=self._engine(),
            start=self._moments[0],
            end=self._moments[-1],
        )

    def _kept(self, labels: Labels, needless: frozenset[str]) -> Mapping[str, str]:
        return {
            **{key: value for key, value in labels if key not in needless},
            **self.labels,
        }

    def _origin(self, name: str) -> Origin:
        return Origin(kind=self.kind, name=name, place=self.place)

    def _series(
        self, signal: Signal, labels: Mapping[str, str], told: Sequence[presence.At]
    ) -> Iterable[Series]:
        last = told[-1].gathered
        readings, doubts = values.readings_of(
            last.name,
            signal,
            last.known.alias.factor,
            [
                values.Told(at, gathered.value)
                for at, gathered in told
                if gathered.value is not None
            ],
        )
        self._doubts += doubts
        if readings:
            yield Series(
                signal=signal, origin=self._origin(last.name), readings=readings, labels=labels
            )

    def _histogram(
        self, signal: Signal, labels: Mapping[str, str], told: Sequence[presence.At]
    ) -> Iterable[HistogramSeries]:
        name = told[-1].gathered.name
        readings: list[HistogramReading] = []
        for at, gathered in told:
            reading = state_of(gathered, at)
            if reading is not None:
                readings.append(reading)
                continue
            self._doubts.append(
                Doubt(
                    kind=DoubtKind.OUT_OF_RANGE,
                    name=name,
                    what=f"the buckets of {name} do not rise, as those of a histogram do; that "
                    "state of it was left out",
                    at=at,
                )
            )
        if readings:
            yield HistogramSeries(
                signal=signal, origin=self._origin(name), readings=tuple(readings), labels=labels
            )

    def _from_settings(
        self, series: Sequence[Series], needless: frozenset[str]
    ) -> Iterable[Series]:
        """Those that no gauge tells."""
        told = {each.signal for each in series}
        for (signal, labels), (name, readings) in self._settings.items():
            if signal not in told:
                yield Series(
                    signal=signal,
                    origin=self._origin(name),
                    readings=tuple(readings),
                    labels=self._kept(labels, needless),
                )

    def _doubt(self, series: Sequence[Series], histograms: Sequence[HistogramSeries]) -> None:
        self._doubts += self._doubt_engines()
        self._doubts += counters.doubts_of(series, histograms)
        shown = _by_rank(histograms)
        for rank, own in sorted(_by_rank(series).items()):
            self._doubts += stillness.doubts_of(own, shown.get(rank, ()))
        self._doubts += presence.vanished(series, self._moments)
        self._doubts += timestamps.doubts_of(
            {told[-1].gathered.name: told for told in self._told.values()}
        )
        table = self._table()
        if table is not None:
            found = {each.signal for each in series} | {each.signal for each in histograms}
            self._doubts += presence.missing(
                table, frozenset(found), self._last_names, self._moments[-1]
            )

    def _note_engines(self, names: frozenset[str]) -> None:
        """Of a page whose names are others than before."""
        counts = engines_of(names)
        if self._first_engine is None and counts:
            self._first_engine = max(counts, key=lambda engine: counts[engine])
        self._other_engines |= counts.keys() - {self._first_engine}

    def _table(self) -> AliasTable | None:
        """Of the engine that is read."""
        return next(
            (table for table in TABLES if table.engine and table.engine == self._first_engine), None
        )

    def _engine(self) -> EngineName | None:
        if self._first_engine is not None:
            return EngineName(name=self._first_engine)
        ours = (
            name
            for prefix, name in OUR_OWN.items()
            if any(each.startswith(prefix) for each in self._names)
        )
        own = next(ours, None)
        return None if own is None else EngineName(name=own)

    def _doubt_engines(self) -> Iterable[Doubt]:
        if self._other_engines:
            others = ", ".join(sorted(self._other_engines))
            yield Doubt(
                kind=DoubtKind.SEVERAL_ENGINES,
                name=self.place,
                what=f"{self.place or 'one page'} shows figures of {self._first_engine} and of "
                f"{others}: several engines answer there, as behind a load balancer; those of "
                f"{self._first_engine} are used alone: ask each engine at its own address",
                at=self._moments[0],
            )


def _by_rank(told: Iterable[T]) -> dict[str, list[T]]:
    """A page of a large fleet has thousands."""
    found: dict[str, list[T]] = {}
    for each in told:
        found.setdefault(each.labels.get("engine", ""), []).append(each)
    return found


def engines_of(names: Iterable[str]) -> dict[str, int]:
    """How many of the names that a page has are an engine's, by engine."""
    known = [canonical(name) for name in names]
    counts = {
        table.engine: sum(name.startswith(table.prefixes) for name in known)
        for table in TABLES
        if table.engine is not None
    }
    return {engine: number for engine, number in counts.items() if number}


def _needless(told: Iterable[SeriesKey]) -> frozenset[str]:
    """Of the labels that tell ranks, models and roles apart, those that have one value."""
    seen: dict[str, set[str]] = {label: set() for label in _ONLY_WHERE_SEVERAL}
    for _, labels in told:
        for key, value in labels:
            if key in seen:
                seen[key].add(value)
    if seen["role"] & _TELLING_ROLES:
        del seen["role"]
    return frozenset(label for label, found in seen.items() if len(found) < 2)
