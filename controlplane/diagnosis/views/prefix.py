"""How much of what is looked up in the prefix cache is found there."""

import itertools
from dataclasses import replace

from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.views.counted_at_end import (
    REQUESTS_OF_A_SHARE,
    between_ends,
    is_told_by_ends,
)
from controlplane.diagnosis.views.course import course_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal
from dataplane.engine_metrics.tables import TABLES

_HIT_RATE = r"hit (rate|ratio|share|percent)|hits share|prefix reuse|cached share"
_PAIRS = (
    (Signal.PREFIX_QUERIES, Signal.PREFIX_HITS),
    (Signal.PROMPT_TOKENS, Signal.CACHED_PROMPT_TOKENS),
)


def hit_rates(window: Window) -> Series | None:
    """The share of tokens that were found, each over a time: between readings of the counters, and
    before the first of them since the process started; else the engine's own figure, else what was
    told."""
    for asked, found in _PAIRS:
        rates = _between(window, tokens_asked(window, asked, found), window.find(found))
        if rates is not None:
            return rates
    rates = _not_computed(
        window, window.find(Signal.PROMPT_TOKENS), window.find(Signal.COMPUTED_PROMPT_TOKENS)
    )
    if rates is not None:
        return rates
    batches = _of_batches(window)
    if batches is not None and window.find(Signal.HIT_RATE) is None:
        return batches
    return course_of(window, Signal.HIT_RATE, _HIT_RATE, without=r"expected|before|target|old")


def tokens_asked(window: Window, signal: Signal, found: Signal) -> Series | None:
    """All tokens that were looked up: llama.cpp counts those it found apart from the others."""
    asked, hits = window.find(signal), window.find(found)
    if asked is None or hits is None or asked.origin.name not in _WITHOUT_CACHED:
        return asked
    readings = [
        Reading(reading.at, reading.value + other.value, "")
        for reading in asked.readings
        if (other := hits.at(reading.at)) is not None
    ]
    return replace(asked, readings=tuple(readings)) if readings else None


_WITHOUT_CACHED = frozenset(
    alias.exported for table in TABLES for alias in table.aliases if alias.is_without_cached
)


def finds_as_many(window: Window) -> bool:
    """As many tokens a second are found as in the beginning of the window: a share that fell all
    the same is one of more or longer prompts. False where that cannot be seen."""
    found = next(
        (series for _, signal in _PAIRS if (series := window.find(signal)) is not None), None
    )
    if found is None:
        found = _left_over(
            window.find(Signal.PROMPT_TOKENS), window.find(Signal.COMPUTED_PROMPT_TOKENS)
        )
    if found is not None and is_told_by_ends(found, window):
        found = between_ends(found, window)
    if found is None or len(found.readings) < _INTERVALS:
        return False
    quarter = found.span_seconds / 4
    before = found.between(found.first.at, found.first.at + quarter)
    after = found.between(found.last.at - quarter, found.last.at)
    if before is None or after is None or min(before.span_seconds, after.span_seconds) <= 0:
        return False
    pace = before.change / before.span_seconds
    return pace > 0 and after.change / after.span_seconds >= _AS_MANY * pace


_AS_MANY = 0.6
"""Of the tokens a second before; with a few prompts a second chance does no more."""


def _of_batches(window: Window) -> Series | None:
    """Of each prefill batch that a log tells of; the later chunks of one prompt look nothing up."""
    reused = window.find(Signal.BATCH_CACHED_TOKENS)
    computed = window.find(Signal.BATCH_COMPUTED_TOKENS)
    if reused is None or computed is None:
        return None
    readings = [
        _reading(found.at, found.value, found.value + done.value)
        for found, done in zip(reused.readings, computed.readings, strict=False)
        if found.at == done.at and found.value + done.value > 0
    ]
    if not readings:
        return None
    return Series(signal=Signal.HIT_RATE, origin=reused.origin, readings=tuple(readings))


def _not_computed(window: Window, asked: Series | None, computed: Series | None) -> Series | None:
    """What of prompts was not computed was found. Both count within a step, so that long intervals
    are taken."""
    found = _left_over(asked, computed)
    return None if found is None or asked is None else _between(window, asked, found)


def _left_over(asked: Series | None, computed: Series | None) -> Series | None:
    if asked is None or computed is None or len(asked.readings) < _INTERVALS:
        return None
    found = [
        Reading(reading.at, reading.value - other.value, "")
        for reading in asked.readings
        if (other := computed.at(reading.at)) is not None
    ]
    if not found or min(reading.value for reading in found) < 0:
        return None
    return replace(asked, readings=tuple(found))


_INTERVALS = 8
_TOO_FEW = 0.02
"""Of the tokens of the busiest interval: what a lone probe finds says nothing about the others."""
_FEWEST_TOKENS = 64
"""Of an interval: four blocks of 16, what a few probes of a word or two ask for."""


def _thinned(series: Series) -> Series:
    """At most so many intervals: short ones hold a handful of prompts."""
    step = max(1, (len(series.readings) - 1) // _INTERVALS)
    kept = series.readings[::-1][::step][::-1]
    return replace(series, readings=kept)


def _told_by_enough(window: Window, queries: Series) -> Series:
    """Of its readings, from the last one back, those between which so many requests ended that
    chance does not make the share; with too few for a course, the first and the last. All of them
    where nobody counts requests."""
    ended = window.find(Signal.FINISHED)
    if ended is None:
        return queries
    kept = [queries.last]
    for reading in queries.readings[-2::-1]:
        before, after = ended.at(reading.at), ended.at(kept[-1].at)
        if before is None or after is None:
            return queries
        if after.value - before.value >= REQUESTS_OF_A_SHARE:
            kept.append(reading)
    if len(kept) < 2:
        kept.append(queries.first)
    return replace(queries, readings=tuple(kept[::-1]))


def _between(window: Window, queries: Series | None, hits: Series | None) -> Series | None:
    if queries is None or hits is None:
        return None
    if is_told_by_ends(queries, window):
        return _between_ends(window, queries, hits)
    queries = _told_by_enough(window, _thinned(queries))
    readings = []
    first, first_hits = queries.first, hits.at(queries.first.at)
    if first_hits is not None and first.value > 0:
        readings.append(_reading(first.at, first_hits.value, first.value))
    most = max((b.value - a.value for a, b in itertools.pairwise(queries.readings)), default=0.0)
    least = max(_TOO_FEW * most, _FEWEST_TOKENS)
    for before, after in itertools.pairwise(queries.readings):
        old, new = hits.at(before.at), hits.at(after.at)
        asked = after.value - before.value
        if old is not None and new is not None and asked > least and new.value >= old.value:
            readings.append(_reading(after.at, new.value - old.value, asked))
    if not readings:
        return None
    return Series(signal=Signal.HIT_RATE, origin=hits.origin, readings=tuple(readings))


def _between_ends(window: Window, queries: Series, hits: Series) -> Series | None:
    """Of so many requests each that chance does not make the share, and of the window alone: how
    many there were before it nobody knows. With too few for a course, one share of all."""
    enough = REQUESTS_OF_A_SHARE
    points = between_ends(queries, window, enough, enough)
    kept = (queries.first, queries.last) if points is None else points.readings
    readings = []
    for before, after in itertools.pairwise(kept):
        old, new = hits.at(before.at), hits.at(after.at)
        asked = after.value - before.value
        if old is not None and new is not None and asked > 0 and new.value >= old.value:
            readings.append(_reading(after.at, new.value - old.value, asked))
    if not readings:
        return None
    name = f"{hits.origin.name} of {enough} requests or more each"
    return Series(
        signal=Signal.HIT_RATE,
        origin=hits.origin if points is None else replace(hits.origin, name=name),
        readings=tuple(readings),
    )


def _reading(at: float, found: float, asked: float) -> Reading:
    share = found / asked
    return Reading(at, share, f"{share * 100:.3g} %")
