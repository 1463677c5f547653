"""Expressions over metrics that cannot mean what they are meant for."""

import re

from controlplane.diagnosis.citing import moved, number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.telemetry.readers import names_read, readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    share_of,
    texts_of,
    told_all,
    told_number,
)
from controlplane.diagnosis.window import DoubtKind
from dataplane.engine_metrics.signal import Signal, SignalKind, Unit

_NEAR = 0.01
_THRESHOLD = re.compile(r"(>=?|<=?|above|over|below|exceeds)\s*(\d[\d.]*)\s*(%?)")
_MOST_RATIO = 1.5
"""A ratio never comes so far."""


def sum_of_shares(argument: Argument, now: Activity) -> Confidence | None:
    """Shares of several replicas added up."""
    for signal in (Signal.KV_USAGE, Signal.HIT_RATE, Signal.DEVICE_USAGE):
        parts = now.window.all_series(signal)
        if len(parts) < 2:
            continue
        whole = sum(part.last.value for part in parts)
        greatest = max(part.last.value for part in parts)
        said = [fact for fact in readers(now.window) if _is(fact, whole) and whole > greatest]
        summed = [
            each
            for each in names_read(now.window)
            if re.search(r"\bsum\s*(by\s*\(.*?\)\s*)?\(", each.text)
            and any(each.name == part.origin.name for part in parts)
        ]
        if not said and not summed:
            continue
        terms = " + ".join(part.last.raw for part in parts)
        argument.says(f"{parts[0].origin.name}: {terms} = {number(whole)}, a sum of ratios")
        for read in summed:
            argument.says(read.said)
        for fact in said:
            argument.fact(fact, "that sum")
        _cite_wellbeing(argument, now)
        argument.against("cache.thrash and queue.overload: no replica is near its limit")
        return Confidence.CERTAIN if said else Confidence.LIKELY
    return None


def counted_twice(argument: Argument, now: Activity) -> Confidence | None:
    """A total added to its own parts."""
    doubts = now.window.doubts_of(DoubtKind.DUPLICATE)
    summed = [fact for fact in readers(now.window) if re.search(r"\bsum\b", fact.raw)]
    for signal in (Signal.RUNNING, Signal.WAITING, Signal.GENERATION_RATE):
        series = now.window.find(signal)
        if series is None or series.last.value <= 0 or not (doubts or summed):
            continue
        for fact in readers(now.window):
            if _WANTED.search(plain(fact.key)) or series.last.value < _LEAST_ALIKE:
                continue
            if _is(fact, 2 * series.last.value):
                for each in summed:
                    argument.fact(each)
                argument.fact(fact, "twice what is there")
                argument.series(series)
                for doubt in doubts[:2]:
                    argument.says(doubt.what)
                _cite_wellbeing(argument, now)
                return Confidence.CERTAIN
    return None


_WANTED = re.compile(
    r"\b(targets?|limits?|thresholds?|max|min|desired|wanted|goal|objective|capacity|above|below)\b"
)
"""What somebody wants to see, and not what is shown."""
_LEAST_ALIKE = 5.0
"""Smaller figures are twice each other by chance."""


def never_reached(argument: Argument, now: Activity) -> Confidence | None:
    """A threshold in percent on a ratio."""
    for read in names_read(now.window):
        series = next((each for each in now.window.series if each.origin.name == read.name), None)
        limit = _THRESHOLD.search(read.text)
        if series is None or limit is None or series.signal.terms.unit is not Unit.RATIO:
            continue
        is_above = limit[1][0] in ">aoe"
        if limit[3] or not is_above or float(limit[2]) <= _MOST_RATIO or series.max > _MOST_RATIO:
            continue
        argument.says(read.said)
        argument.series(series, "a ratio, 0 to 1: it never comes there")
        _cite_readers(argument, now)
        return Confidence.CERTAIN
    return None


def total_since_start(argument: Argument, now: Activity) -> Confidence | None:
    """A counter held against a threshold as if it were of now."""
    for read in names_read(now.window):
        series = _counter(now, read.name)
        limit = _THRESHOLD.search(read.text)
        if series is None or limit is None or re.search(r"rate|increase|delta|deriv", read.text):
            continue
        if series.increase is None or series.increase > 0 or series.last.value < float(limit[2]):
            continue
        argument.says(read.said)
        argument.says(f"{moved(series)}: counted since the start, and nothing of it now")
        _cite_wellbeing(argument, now)
        return Confidence.CERTAIN
    return None


def _counter(now: Activity, name: str) -> Series | None:
    return next(
        (
            each
            for each in now.window.series
            if each.origin.name == name and each.signal.terms.kind is SignalKind.COUNTER
        ),
        None,
    )


def mean_of_percentiles(argument: Argument, now: Activity) -> Confidence | None:
    """Percentiles cannot be averaged."""
    for fact in readers(now.window):
        if re.search(r"\b(avg|mean|sum)\w*\s*(by\s*\(.*?\)\s*)?\(.*(quantile|p9\d|p50)", fact.raw):
            argument.fact(fact, "percentiles of several are no percentile of all")
            _cite_readers(argument, now)
            _cite_wellbeing(argument, now)
            return Confidence.LIKELY
    return None


def _is(fact: Fact, value: float) -> bool:
    told = number_of(fact)
    if told is None or value <= 0:
        return False
    return any(abs(each - value) <= _NEAR * value for each in (told, told / 100))


def _cite_readers(argument: Argument, now: Activity) -> None:
    for fact in readers(now.window):
        argument.fact(fact)


def _cite_wellbeing(argument: Argument, now: Activity) -> None:
    """That nothing is wrong with the engine meanwhile."""
    for signal in (Signal.WAITING, Signal.PREEMPTIONS, Signal.RUNNING):
        for series in now.window.all_series(signal):
            argument.series(series)
    for fact in told_all(now.window, r"ttft|latency|objective|error"):
        argument.fact(fact)


def restarted(argument: Argument, now: Activity) -> Confidence | None:
    """A counter that fell because its process began anew."""
    fell = [
        text
        for text in texts_of(now.window)
        if re.search(
            r"negative|\bfell\b|dropp?ed|went down|decreas|jumped back", text, re.IGNORECASE
        )
    ]
    fell += [
        f"{fact.key}: {fact.raw}"
        for fact in readers(now.window)
        if fact.value is None and re.search(r"(?<![\w.-])-\d", fact.raw)
    ]
    again = [text for text in texts_of(now.window) if re.search(r"restart|redeploy|new pod", text)]
    less = [
        contrast
        for contrast in contrasts(now.window, r"counter|total|count|served")
        if contrast.factor < _FELL
    ]
    reset = now.window.doubts_of(DoubtKind.COUNTER_RESET)
    if not (fell and (less or reset)) or not (again or reset):
        return None
    for text in (*fell[:2], *again[:2]):
        argument.says(text)
    for contrast in less:
        argument.says(f"{contrast.says}: it began anew")
    for doubt in reset[:2]:
        argument.says(doubt.what)
    _cite_wellbeing(argument, now)
    argument.against("engine.hung: it is a new process, and counts")
    return Confidence.CERTAIN if again and (less or reset) else Confidence.LIKELY


_FELL = 0.5


def cached_is_not_computed(argument: Argument, now: Activity) -> Confidence | None:
    """Prompt tokens hold those that were found in a cache: no speed of prefill."""
    all_tokens = now.window.find(Signal.PROMPT_TOKENS)
    cached = now.window.find(Signal.CACHED_PROMPT_TOKENS)
    whole = None if all_tokens is None else all_tokens.per_second
    found = None if cached is None else cached.per_second
    if all_tokens is None or cached is None or not whole or not found or found < _MOSTLY * whole:
        return None
    claimed = [
        fact
        for fact in told_all(now.window, r"prefill|prompt|claim|speed|tok")
        if (value := number_of(fact)) is not None and abs(value - whole) <= _ABOUT * whole
    ]
    read = [each for each in names_read(now.window) if each.name == all_tokens.origin.name]
    if not claimed and not read:
        return None
    for each in read:
        argument.says(each.said)
    for fact in claimed:
        argument.fact(fact, "that counts what was found in the cache")
    argument.says(moved(all_tokens))
    argument.says(f"{moved(cached)}: found, and not computed")
    argument.says(f"computed are {number(whole - found)} a second")
    return Confidence.CERTAIN


_MOSTLY = 0.5
_ABOUT = 0.1


def of_one_batch(argument: Argument, now: Activity) -> Confidence | None:
    """SGLang's hit rate is of the newest prefill batch: counters tell another."""
    gauge = now.window.find(Signal.HIT_RATE)
    asked, found = (
        now.window.find(Signal.PROMPT_TOKENS),
        now.window.find(Signal.CACHED_PROMPT_TOKENS),
    )
    if _answers_say_otherwise(argument, now):
        return Confidence.LIKELY
    queries = None if asked is None else asked.increase
    hits = None if found is None else found.increase
    if gauge is None or found is None or not queries or hits is None or not readers(now.window):
        return None
    share = hits / queries
    if abs(share - gauge.last.value) < _APART:
        return None
    argument.says(f"{gauge.origin.name} {gauge.last.raw}, of the newest batch")
    argument.says(f"{moved(found)}: {number(share * 100)} % of the prompt tokens of that time")
    _cite_readers(argument, now)
    argument.against("cache.nothing_shared and cache.prefix_loss: the counters find it")
    return Confidence.CERTAIN


_APART = 0.4


def _answers_say_otherwise(argument: Argument, now: Activity) -> bool:
    """A share of cached tokens that was counted from answers is far above SGLang's gauge."""
    gauge = now.window.find(Signal.HIT_RATE)
    counted = told_number(
        now.window,
        r"(?=.*\b(cached|reused|hits?)\b)(?=.*\b(answers?|responses?|usage|counters?|tokens)\b)"
        r"(?=.*\b(share|rate|ratio|percent)\b)",
        without=r"\b(last|before|yesterday|usual|expected|was|ago|ideal|baseline)\b",
    )
    told = share_of(counted)
    if gauge is None or told is None or not gauge.origin.name.startswith("sglang:"):
        return False
    if told - gauge.last.value < _APART:
        return False
    argument.series(gauge, "of the newest batch")
    argument.fact(counted)
    argument.against("cache.nothing_shared and cache.prefix_loss: answers say what it finds")
    return True
