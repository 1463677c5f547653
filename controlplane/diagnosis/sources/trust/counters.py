"""Doubts about counters: a restart, or several processes that answer by turns."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

from controlplane.diagnosis.reading import HistogramSeries, Series
from controlplane.diagnosis.turnover import Counted, takes_turns
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.signal import Signal, SignalKind

_BY_TURNS = 2
"""Falls of one counter after each of which it comes back: two processes answer."""
_SHOWN = 4


def doubts_of(series: Sequence[Series], histograms: Sequence[HistogramSeries]) -> Iterable[Doubt]:
    """Of all counters of one endpoint."""
    starts = [each for each in series if each.signal is Signal.PROCESS_STARTED]
    for each in starts:
        yield from _new_start(each)
    fell = [each for each in series if _falls(each)]
    for each in fell[:_SHOWN]:
        yield _fall(each, is_restart=any(start.min < start.max for start in starts))
    for histogram in histograms:
        yield from _histogram(histogram)


def _falls(series: Series) -> list[tuple[int, int]]:
    """Pairs of positions between which a counter fell."""
    if series.signal.terms.kind is not SignalKind.COUNTER:
        return []
    values = series.values
    return [
        (index, index + 1)
        for index, (before, after) in enumerate(itertools.pairwise(values))
        if after < before
    ]


def _fall(series: Series, is_restart: bool) -> Doubt:
    falls = _falls(series)
    before, after = falls[0]
    at = series.readings[after].at
    step = f"{series.readings[before].raw} -> {series.readings[after].raw}"
    name = series.origin.name
    if len(falls) >= _BY_TURNS and takes_turns(_pages_of(series)):
        what = (
            f"{name} jumps back and forth ({step} and up again, {len(falls)} times): several "
            "processes answer at this address by turns, so its increase is of none of them"
        )
    else:
        why = "its process restarted" if is_restart else "its process restarted, or it was reset"
        what = f"{name} fell {step}: {why}; only what came after is counted"
    return Doubt(kind=DoubtKind.COUNTER_RESET, name=name, what=what, at=at)


def _pages_of(series: Series) -> Iterator[Counted]:
    for reading in series.readings:
        yield Counted(at=reading.at, counters={series.signal: reading.value})


def _new_start(started: Series) -> Iterable[Doubt]:
    for before, after in itertools.pairwise(started.readings):
        if after.value != before.value:
            yield Doubt(
                kind=DoubtKind.COUNTER_RESET,
                name=started.origin.name,
                what=f"{started.origin.name} went {before.raw} -> {after.raw}: another process "
                "answers since then",
                at=after.at,
            )
            return


def _histogram(histogram: HistogramSeries) -> Iterable[Doubt]:
    for before, after in itertools.pairwise(histogram.readings):
        name = histogram.origin.name
        if before.bounds != after.bounds:
            lost = len(before.bounds) - len(after.bounds)
            how = f"has {abs(lost)} buckets {'fewer' if lost > 0 else 'more'}" if lost else ""
            yield Doubt(
                kind=DoubtKind.COUNTER_RESET,
                name=name,
                what=f"{name} {how or 'has other bounds'} than before: what was observed until "
                "then is not compared with what came after",
                at=after.at,
            )
            return
        if after.count < before.count:
            yield Doubt(
                kind=DoubtKind.COUNTER_RESET,
                name=name,
                what=f"{name}_count fell {before.count:.0f} -> {after.count:.0f}: its process "
                "restarted, or it was reset",
                at=after.at,
            )
            return
