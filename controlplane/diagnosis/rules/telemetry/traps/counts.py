"""Counts that are taken for something of now, or for requests."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.telemetry.readers import READER, readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, SignalKind, Unit

_OVER_TIME = re.compile(r"\b(i?rate|increase|i?delta|deriv|per)\b|\[\w+\]", re.IGNORECASE)
_SAME = 0.001
_READ_APART = 0.01
"""Between two ends of one count that are read at different moments."""
_FAR_MORE = 1.2
_OF_NOW = (
    r"\b(batch|in flight|held|hold\w*|current\w*|right now|now|running|in the cache|fill|usage)\b"
)
_SENT = r"\brequests?\b.*\b(sent|issued|made|total)\b|^(sent|requests?)$|\bsent\b.*\brequests?\b"
_ANSWERED = (
    r"\b(answers?|requests?|responses?|completions?)\b.*\b(complete|ok|200|done|received|answered)\b"
    r"|^(answered|completed|succeeded)\b"
)
_ERRORS = r"\b(errors?|failed|failures|lost|5xx|aborts?|cancelled|timeouts?)\b"


def counters_added_up(argument: Argument, now: Activity) -> Confidence | None:
    """Counts since the start, read as what the engine has in hand."""
    for fact in readers(now.window):
        if _OVER_TIME.search(fact.raw):
            continue
        counters = [series for series in _counters(now.window) if _names(fact, series)]
        total = sum(series.last.value for series in counters)
        shown = _shown(now.window, total, without=fact)
        if not counters or total <= 0 or shown is None:
            continue
        argument.fact(fact)
        terms = " + ".join(series.last.raw for series in counters)
        argument.says(f"{terms} = {says(shown)}: counted since the start, and not in hand now")
        _cite_held(argument, now)
        return Confidence.CERTAIN
    for series in _counters(now.window):
        shown = _shown(now.window, series.last.value)
        if series.signal.terms.unit is Unit.TOKENS and shown is not None and _is_of_now(shown):
            argument.says(
                f"{says(shown)} is {series.origin.name} {series.last.raw}: since the start"
            )
            _cite_held(argument, now)
            return Confidence.LIKELY
    return None


def _counters(window: Window) -> list[Series]:
    return [each for each in window.series if each.signal.terms.kind is SignalKind.COUNTER]


def _is_of_now(shown: Fact) -> bool:
    key = plain(shown.key)
    is_total = re.search(r"\b(not|total|since|start|served|sent|counter|so far|ever)\b", key)
    return re.search(_OF_NOW, key) is not None and not is_total


def _names(fact: Fact, series: Series) -> bool:
    bare = series.origin.name.split(":")[-1].removesuffix("_total")
    return re.search(rf"(?<![a-z_]){re.escape(bare)}(_total)?(?![a-z_])", fact.raw) is not None


def _shown(window: Window, total: float, without: Fact | None = None) -> Fact | None:
    """What somebody's panel shows, and is that to the digit."""
    found = [
        fact
        for fact in window.facts
        if fact is not without
        and (value := number_of(fact)) is not None
        and total > _LEAST
        and abs(value - total) <= _SAME * total
        and fact.unit in (None, Unit.TOKENS, Unit.REQUESTS, Unit.COUNT)
        and re.search(rf"{READER}|{_OF_NOW}|shown|value|believ|claim", plain(fact.key))
    ]
    return found[0] if found else None


_LEAST = 1000.0
"""Small numbers are alike by chance."""


def _cite_held(argument: Argument, now: Activity) -> None:
    """What it has in hand in truth."""
    kv, capacity = now.kv, now.capacity
    if kv is not None and capacity:
        held = number(round(kv.last.value * capacity))
        argument.says(f"{kv.origin.name} {kv.last.raw} of {number(capacity)} tokens: {held}")
    for series in (now.running, now.waiting, now.preemptions):
        argument.series(series)
    for fact in told_all(now.window, r"expect|at most|believ|claim"):
        argument.fact(fact)
    argument.against("cache.thrash and release.leak: what is held is in the gauge of usage")


def observed_more_than_there_were(argument: Argument, now: Activity) -> Confidence | None:
    """A histogram counts its observations: more of them than requests is another unit, and no
    request that was lost."""
    finished = now.window.find(Signal.FINISHED)
    if finished is None or finished.last.value <= 0:
        return None
    ended = finished.last.value
    outside = [
        fact
        for fact in told_all(now.window, f"{_SENT}|{_ANSWERED}", without=r"per|last|rate|lost")
        if (value := number_of(fact)) is not None and abs(value - ended) <= _READ_APART * ended
    ]
    lost = [value for fact in told_all(now.window, _ERRORS) if (value := number_of(fact))]
    if not outside or lost:
        return None
    for signal in (Signal.TTFT, Signal.QUEUE_TIME, Signal.PREFILL_TIME, Signal.E2E):
        histogram = now.window.find_histogram(signal)
        if histogram is None or histogram.readings[-1].count < _FAR_MORE * ended:
            continue
        count = number(histogram.readings[-1].count)
        terms = " + ".join(series.last.raw for series in now.window.all_series(Signal.FINISHED))
        argument.says(f"{finished.origin.name}: {terms} = {number(ended)} ended")
        for fact in outside:
            argument.fact(fact, "as many")
        argument.says(f"{histogram.origin.name}_count {count}: it counts more than requests")
        for fact in told_all(now.window, rf"{_ERRORS}|in flight|chunk"):
            argument.fact(fact)
        for series in (now.running, now.waiting, now.preemptions):
            argument.series(series)
        argument.against("release.leak and policy.rejecting: what was sent is answered")
        return Confidence.CERTAIN
    return None


def both_kinds_of_tokens(argument: Argument, now: Activity) -> Confidence | None:
    """A speed that adds prompts, which are read many at a time, to what is generated."""
    made, read = now.decode, now.prefill
    if made is None or read is None or made.last.value <= 0:
        return None
    both = made.mean + read.mean
    if read.mean < made.mean:
        return None
    for fact in told_all(
        now.window, r"throughput|tok|speed|tps", without=r"prompt|prefill|input|total|output|gen"
    ):
        value = number_of(fact)
        is_it = value is not None and abs(value - both) <= _ABOUT * both
        if is_it and re.search(rf"{READER}|shown|claim|believ", plain(fact.key)):
            argument.fact(fact, "prompts are in it")
            argument.series(read)
            argument.series(made, "and this is what is generated")
            return Confidence.LIKELY
    return None


_ABOUT = 0.03


def share_since_start(argument: Argument, now: Activity) -> Confidence | None:
    """A hit rate of the whole life of a process hides what it is of late."""
    asked, found = (
        now.window.find(Signal.PREFIX_QUERIES),
        now.window.find(Signal.PREFIX_HITS),
    )
    if asked is None or found is None or not asked.increase or found.increase is None:
        return None
    whole, late = found.last.value / asked.last.value, found.increase / asked.increase
    if abs(whole - late) < _APART:
        return None
    for fact in told_all(now.window, r"hit (rate|ratio|share)|cache"):
        value = number_of(fact)
        if value is None or (fact.unit is not Unit.RATIO and value > 1.0):
            continue
        if abs(value - whole) <= _READ_APART and re.search(
            rf"{READER}|shown|lifetime|overall", plain(fact.key)
        ):
            argument.fact(fact, "of the whole life of the process")
            argument.says(
                f"{found.origin.name} and {asked.origin.name} rose by {number(found.increase)} and "
                f"{number(asked.increase)}: {late * 100:.3g} % of late"
            )
            return Confidence.LIKELY
    return None


_APART = 0.15
