"""Doubts about gauges that stand still: nobody sets them any more, or they are of another time."""

from collections.abc import Iterable, Sequence

from controlplane.diagnosis.reading import HistogramSeries, Series, SourceKind
from controlplane.diagnosis.views.activity import FULL
from controlplane.diagnosis.window import Doubt, DoubtKind
from dataplane.engine_metrics.rounding import is_rounded
from dataplane.engine_metrics.signal import Signal, SignalKind
from dataplane.engine_metrics.tables import TABLES

_STILL_READINGS = 3
"""Two equal readings may be chance."""
_STILL_SECONDS = 10.0
"""vLLM and SGLang set their gauges at each step, llama.cpp at each scrape; a step of ten seconds
is a stall of its own."""
_BUSY_READINGS = 5
_BUSY_TOKENS = 100.0
"""So many tokens were selected while a share of KV blocks stayed the same to the digit. Each
sequence takes a block every 16 tokens or so."""
_WATCHED = (Signal.RUNNING, Signal.WAITING, Signal.KV_USAGE)
_WORK = (
    Signal.GENERATION_TOKENS,
    Signal.PROMPT_TOKENS,
    Signal.COMPUTED_PROMPT_TOKENS,
    Signal.STEPS,
)
_PER_SCRAPE = {
    alias.exported: alias.averages
    for table in TABLES
    for alias in table.aliases
    if alias.averages is not None
}
"""Averages since the last scrape of anybody, by the counter of the same work."""


def doubts_of(series: Sequence[Series], histograms: Sequence[HistogramSeries]) -> Iterable[Doubt]:
    """Of the gauges of one endpoint (one rank)."""
    counters = [each for each in series if each.signal.terms.kind is SignalKind.COUNTER]
    work = [each for each in counters if each.signal in _WORK and len(each.readings) > 1]
    for gauge in series:
        if gauge.origin.name in _PER_SCRAPE:
            yield from _per_scrape(gauge, counters)
        elif gauge.signal in _WATCHED and gauge.is_constant and gauge.last.value > 0:
            yield from _still(gauge, work, histograms)


def _still(
    gauge: Series, work: Sequence[Series], histograms: Sequence[HistogramSeries]
) -> Iterable[Doubt]:
    if len(gauge.readings) < _STILL_READINGS or gauge.span_seconds < _STILL_SECONDS or not work:
        return
    stays = f"{gauge.origin.name} stays {gauge.last.raw} to the digit for {gauge.span_seconds:g} s"
    moved = [each for each in work if each.increase]
    if not moved and not _are_observed(histograms):
        counters = ", ".join(sorted(each.origin.name for each in work))
        yield Doubt(
            kind=DoubtKind.STUCK,
            name=gauge.origin.name,
            what=f"{stays} while nothing is counted ({counters}): either nothing moves, or it is "
            "of a time that is over",
            at=gauge.first.at,
        )
        return
    tokens = _busiest(moved)
    if tokens is not None and _has_to_move(gauge):
        yield Doubt(
            kind=DoubtKind.STUCK,
            name=gauge.origin.name,
            what=f"{stays} while {tokens.origin.name} went {tokens.first.raw} -> "
            f"{tokens.last.raw}: nobody sets it any more",
            at=gauge.first.at,
        )


def _are_observed(histograms: Sequence[HistogramSeries]) -> bool:
    """Something was put into one of them between its first reading and its last."""
    return any(
        each.observed.count
        and len(each.readings) > 1
        and each.readings[-1].count != each.readings[0].count
        for each in histograms
    )


def _busiest(moved: Sequence[Series]) -> Series | None:
    """Of the counters of tokens the one that grew most, where that was by many."""
    tokens = [each for each in moved if each.signal is Signal.GENERATION_TOKENS]
    most = max(tokens, key=lambda each: each.increase or 0.0, default=None)
    return None if most is None or (most.increase or 0.0) < _BUSY_TOKENS else most


def _has_to_move(gauge: Series) -> bool:
    """A usage that is neither full nor rounded changes with each block that is taken; of a full
    cache each block that is freed is taken at once."""
    return (
        gauge.signal is Signal.KV_USAGE
        and not is_rounded(gauge.origin.name)
        and gauge.last.value < FULL
        and len(gauge.readings) >= _BUSY_READINGS
    )


def _per_scrape(gauge: Series, counters: Sequence[Series]) -> Iterable[Doubt]:
    """llama.cpp resets these when they are read, and some builds never do."""
    if gauge.origin.kind is not SourceKind.METRICS or len(gauge.readings) < _STILL_READINGS:
        return
    signal = _PER_SCRAPE[gauge.origin.name]
    counted = next((each for each in counters if each.signal is signal), None)
    if counted is None or counted.increase is None:
        return
    name = gauge.origin.name
    if gauge.is_constant and gauge.last.value > 0 and not counted.increase:
        yield Doubt(
            kind=DoubtKind.STUCK,
            name=name,
            what=f"{name} stays {gauge.last.raw} while {counted.origin.name} stands still: this "
            "build does not reset it; use the counters",
            at=gauge.first.at,
        )
    elif gauge.max == 0 and counted.increase > 0:
        yield Doubt(
            kind=DoubtKind.OUT_OF_RANGE,
            name=name,
            what=f"{name} is 0 while {counted.origin.name} went {counted.first.raw} -> "
            f"{counted.last.raw}: it is an average since the last scrape, and somebody else "
            "scrapes too; use the counters",
            at=gauge.last.at,
        )
