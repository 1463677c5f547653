"""The window: everything that a rule may look at, in one normal form, over one stretch of time."""

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.line_search import LineSearch
from controlplane.diagnosis.log_event import LogEvent, LogKind
from controlplane.diagnosis.patterns import compiled
from controlplane.diagnosis.reading import HistogramReading, HistogramSeries, Reading, Series
from controlplane.diagnosis.summing import joined, joined_histograms
from dataplane.engine_metrics.signal import Signal, Unit

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something was changed: a revision, a setting, a version, a replica."""

    at: float
    what: str
    versions: tuple[str, ...] = ()
    """Those that the text names, in their order: usually the old one and the new."""
    subject: str = ""
    """The replica or process that it is about; empty: not said, or of no one alone."""
    is_observation: bool = False
    """We saw it to be so, as that it answers again; nobody did anything by it."""


class DoubtKind(StrEnum):
    """Why a value is not to be trusted as it stands."""

    COUNTER_RESET = "counter_reset"
    STUCK = "stuck"
    """A gauge stays the same to the digit while counters say that nothing, or much, happens."""
    OUT_OF_RANGE = "out_of_range"
    UNIT_GUESSED = "unit_guessed"
    """Such as percent under a name that says ratio."""
    TIME_GUESSED = "time_guessed"
    """Nothing says when it was so: courses may be right, rates are not to be trusted."""
    RENAMED = "renamed"
    """Found under a name of another version."""
    DUPLICATE = "duplicate"
    """Said twice, by two series or sources that disagree."""
    SEVERAL_ENGINES = "several_engines"
    """One address shows figures of several, and those of one of them are read."""
    MISSING = "missing"
    """Expected of this engine and not there."""
    UNREADABLE = "unreadable"
    """A line or a sample that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """One thing about the telemetry itself."""

    kind: DoubtKind
    name: str
    """Of the series or the place."""
    what: str
    at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineName:
    """Which engine it is, as far as could be seen."""

    name: str
    """vllm, sglang, llama.cpp, tgi, trtllm, pilothouse; where what was seen is no engine's but a
    part of ours: pilothouse gateway, pilothouse control plane."""
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """All that could be seen between `start` and `end`, in seconds on one clock.

    The clock is Unix time where the sources know it, otherwise relative to their first moment.
    """

    start: float
    end: float
    engine: EngineName | None = None
    series: tuple[Series, ...] = ()
    histograms: tuple[HistogramSeries, ...] = ()
    facts: tuple[Fact, ...] = ()
    """In time order."""
    events: tuple[LogEvent, ...] = ()
    """In the order of their lines."""
    lines: tuple[str, ...] = ()
    """Of all logs, as they were."""
    line_times: tuple[float | None, ...] = ()
    """Of each of `lines`, None of one without a stamp; empty where none is known."""
    told_lines: tuple[LogEvent, ...] = ()
    """What a reader of logs makes of texts among `facts`, as of a traceback's last line that
    somebody copied: without a place, their index is -1."""
    changes: tuple[Change, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    exported_names: frozenset[str] = frozenset()
    """Every metric name that a /metrics page had, known or not."""
    whole: "Window | None" = field(default=None, repr=False, compare=False)
    """Of a stretch, what it is a stretch of: its lines are searched there, once for all
    stretches."""
    _worked_out: dict[Hashable, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def once(self, key: Hashable, work: Callable[[], T]) -> T:
        """What `work` makes of this window, which never changes: made when it is first asked for,
        since forty rules ask for the same."""
        if key not in self._worked_out:
            self._worked_out[key] = work()
        found: T = self._worked_out[key]
        return found

    # --- series -------------------------------------------------------------------------
    def all_series(self, signal: Signal, **labels: str) -> tuple[Series, ...]:
        """Those of `signal` that carry `labels`."""
        return tuple(
            series
            for series in self.series
            if series.signal is signal and labels.items() <= series.labels.items()
        )

    def find(self, signal: Signal, **labels: str) -> Series | None:
        """One series of `signal`: the only one, or all of ranks and replicas joined (`summing`).
        None where there is none."""
        key = ("find", signal, frozenset(labels.items()))
        return self.once(key, lambda: _one(self.all_series(signal, **labels)))

    def find_histogram(self, signal: Signal, **labels: str) -> HistogramSeries | None:
        """One histogram of `signal`: the only one, or all joined (`summing`). None where there is
        none."""

        def join() -> HistogramSeries | None:
            found = [
                histogram
                for histogram in self.histograms
                if histogram.signal is signal and labels.items() <= histogram.labels.items()
            ]
            return joined_histograms(found) if found else None

        return self.once(("find_histogram", signal, frozenset(labels.items())), join)

    # --- facts --------------------------------------------------------------------------
    def fact(
        self, *phrases: str, unit: Unit | None = None, without: Iterable[str] = ()
    ) -> Fact | None:
        """The newest fact whose words hold all words of a phrase, the first phrase that is found
        first; of equally new ones that whose key says least besides.
        `fact("in flight", "outstanding")`."""
        found = self.facts_of(*phrases, unit=unit, without=without)
        return max(
            found,
            key=lambda fact: (fact.at, fact.part is None, fact.value is not None, -len(fact.words)),
            default=None,
        )

    def facts_of(
        self, *phrases: str, unit: Unit | None = None, without: Iterable[str] = ()
    ) -> tuple[Fact, ...]:
        """All of them, in time order, for the first phrase that is found."""
        unwanted = frozenset(without)
        for phrase in phrases:
            wanted = frozenset(phrase.split())
            found = tuple(
                fact
                for fact in self.facts
                if wanted <= fact.words
                and not unwanted & fact.words
                and (unit is None or fact.unit in (unit, None))
            )
            if found:
                return found
        return ()

    def number(
        self, *phrases: str, unit: Unit | None = None, without: Iterable[str] = ()
    ) -> float | None:
        """The value of such a fact; None where it is not there or is no number."""
        fact = self.fact(*phrases, unit=unit, without=without)
        return None if fact is None else fact.value

    # --- log ----------------------------------------------------------------------------
    def events_of(self, *kinds: LogKind) -> tuple[LogEvent, ...]:
        """Of these kinds, in the order of their lines."""
        key = ("events of", kinds)
        return self.once(key, lambda: tuple(each for each in self.events if each.kind in kinds))

    def last_event(self, *kinds: LogKind) -> LogEvent | None:
        """The last of these kinds."""
        return next(iter(reversed(self.events_of(*kinds))), None)

    def lines_with(self, pattern: str) -> tuple[str, ...]:
        """Log lines that match the regular expression, whatever their case."""
        return tuple(self.lines[place] for place in self.places_with(pattern))

    def places_with(self, pattern: str) -> tuple[int, ...]:
        """Indexes of such lines."""
        return self.once(("places with", pattern), lambda: self._places_with(pattern))

    def _places_with(self, pattern: str) -> tuple[int, ...]:
        if not self.lines:
            return ()
        if self.whole is None:
            return self.once("line search", lambda: LineSearch(self.lines)).places(pattern)
        matching = frozenset(self.whole.lines_with(pattern))
        return tuple(place for place, line in enumerate(self.lines) if line in matching)

    def changes_with(self, pattern: str) -> tuple[Change, ...]:
        """Changes that match the regular expression, whatever their case."""
        wanted = compiled(pattern, re.IGNORECASE)
        return tuple(change for change in self.changes if wanted.search(change.what))

    # --- doubts -------------------------------------------------------------------------
    def doubts_of(self, *kinds: DoubtKind) -> tuple[Doubt, ...]:
        """Of these kinds."""
        return tuple(doubt for doubt in self.doubts if doubt.kind in kinds)

    def age_seconds(self, reading: Reading | HistogramReading | Fact) -> float:
        """How old it is at the end of the window."""
        return self.end - reading.at


def _one(found: Sequence[Series]) -> Series | None:
    if len(found) < 2:
        return found[0] if found else None
    return joined(found)
