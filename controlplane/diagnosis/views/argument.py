"""What speaks for and against one mechanism, gathered while a rule looks at a window."""

from collections.abc import Iterable

from controlplane.diagnosis import citing
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import HistogramSeries, Reading, Series
from controlplane.diagnosis.verdict import Cited, Verdict
from controlplane.diagnosis.views.course import stretch_while
from controlplane.diagnosis.window import Change, Window
from dataplane.engine_metrics.signal import Signal, SignalKind

_MOST_NEEDS = 5
_MOST_TOLD = 16
_LONGEST_TOLD = 60
_MOST_PLACES = 4
_ALWAYS_OF_INTEREST = (
    Signal.RUNNING,
    Signal.WAITING,
    Signal.KV_USAGE,
    Signal.CONTEXT_TOKENS,
    Signal.PREEMPTIONS,
    Signal.GENERATION_RATE,
    Signal.FINISHED,
    Signal.TRANSFER_QUEUE,
)


class Argument:
    """Sentences and figures in the order in which they came up, each once."""

    def __init__(self, window: Window) -> None:
        self._window = window
        self._evidence: dict[str, None] = {}
        self._against: dict[str, None] = {}
        self._needs: dict[str, None] = {}
        self._cited: dict[Cited, None] = {}

    def says(self, sentence: str) -> None:
        """Something that speaks for it."""
        self._evidence[sentence] = None

    def series(self, series: Series | None, why: str = "") -> None:
        """How a series went; nothing where there is none."""
        if series is None:
            return
        self.says(_with(course(series), why))
        like = citing.cited_series(self._window, series)
        for reading in _shown(series):
            self._cited[citing.cited_reading(self._window, like, reading)] = None

    def across(self, several: Iterable[Series], sentence: str) -> None:
        """One sentence about several series, as of each replica: how each began and stands."""
        self.says(sentence)
        for series in several:
            like = citing.cited_series(self._window, series)
            for reading in dict.fromkeys((series.first, series.last)):
                self._cited[citing.cited_reading(self._window, like, reading)] = None

    def histogram(self, histogram: HistogramSeries, value: float, sentence: str) -> None:
        """A mean or percentile of a histogram."""
        self.says(sentence)
        cited = citing.cited_histogram(self._window, histogram, value)
        self._cited[cited] = None

    def fact(self, fact: Fact | None, why: str = "") -> None:
        """What was told; nothing where it was not."""
        if fact is None:
            return
        self.says(_with(citing.says(fact), why))
        cited = citing.cited_fact(self._window, fact)
        if cited is not None:
            self._cited[cited] = None

    def change(self, change: Change) -> None:
        """What was changed, and when."""
        self.says(citing.changed(self._window, change))

    def against(self, sentence: str) -> None:
        """Something that does not fit, or a look-alike with why it is not that one."""
        self._against[sentence] = None

    def need(self, *what: str) -> None:
        """What would settle it."""
        for each in what:
            self._needs[each] = None

    def _add_the_rest(self) -> None:
        said = " ".join((*self._evidence, *self._against))
        unsaid = [
            course(each)
            for signal in _ALWAYS_OF_INTEREST
            for each in self._window.all_series(signal)[:_MOST_PLACES]
            if each.origin.name not in said
        ]
        if unsaid:
            self.says(f"seen besides: {'; '.join(unsaid)}")
        rest = [
            citing.says(fact)
            for fact in self._window.facts
            if _is_figure(fact) and citing.says(fact) not in said
        ]
        if rest:
            self.says(f"told besides: {', '.join(dict.fromkeys(rest[:_MOST_TOLD]))}")

    def verdict(
        self, confidence: Confidence, *, detail: str = "", remedy: str | None = None
    ) -> Verdict:
        """What was gathered, as a verdict. From LIKELY on it ends with what else was told, so that
        whoever doubts it sees what it was weighed against."""
        if confidence >= Confidence.LIKELY:
            self._add_the_rest()
        return Verdict(
            confidence=confidence,
            evidence=tuple(self._evidence),
            against=tuple(self._against),
            needs=tuple(self._needs)[:_MOST_NEEDS],
            cited=tuple(self._cited),
            detail=detail,
            remedy=remedy,
        )


def _is_figure(fact: Fact) -> bool:
    return len(fact.raw) <= _LONGEST_TOLD and fact.part is None


def course(series: Series) -> str:
    """`Waiting 43, 42, 33, 23, 23 in 40 s`; a counter by its ends and its rate."""
    if len(series.readings) == 1:
        return f"{series.origin.name} {series.last.raw}"
    if series.signal.terms.kind is SignalKind.COUNTER:
        rate = series.per_second
        return citing.moved(series) + (f" ({citing.number(rate)} a second)" if rate else "")
    if series.is_constant:
        return citing.stands(series)
    whole = f"{citing.course(series)} in {citing.seconds(series.span_seconds)} s"
    return whole + _peak(series) + _end(series)


def _shown(series: Series) -> tuple[Reading, ...]:
    """The readings that `course` tells, in their order."""
    if series.signal.terms.kind is SignalKind.COUNTER and len(series.readings) > 1:
        return (series.first, series.last)
    if len(series.readings) == 1 or series.is_constant:
        return (series.last,)
    peak = _peak_of(series)
    found = {*citing.shown(series.readings), *(() if peak is None else (peak,))}
    return tuple(sorted(found, key=lambda reading: reading.at))


def _peak(series: Series) -> str:
    peak = _peak_of(series)
    if peak is None:
        return ""
    ago = citing.seconds(series.last.at - peak.at)
    return f", at most {peak.raw}, {ago} s before its end"


def _peak_of(series: Series) -> Reading | None:
    """The greatest, where the few that are shown of a long series miss it."""
    if len(series.readings) <= _SHOWN:
        return None
    greatest = max(reading.value for reading in citing.shown(series.readings, _SHOWN))
    peak = max(series.readings, key=lambda reading: reading.value)
    return peak if peak.value > _HIDDEN * greatest else None


def _end(series: Series) -> str:
    """How it stands of late, where that is short beside what is shown."""
    if len(series.readings) <= _SHOWN:
        return ""
    stands = stretch_while(series, lambda value: value == series.last.value)
    if stands is None or len(stands.readings) < 2:
        return ""
    if stands.span_seconds >= series.span_seconds / (_SHOWN - 1):
        return ""
    return f", {series.last.raw} for the last {citing.seconds(stands.span_seconds)} s"


_SHOWN = 8
_HIDDEN = 1.5
"""Times the greatest of those that are shown."""


def _with(what: str, why: str) -> str:
    return f"{what}: {why}" if why else what
