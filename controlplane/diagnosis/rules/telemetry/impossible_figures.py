"""Figures that cannot be: percent under the name of a ratio, counters that lost a part of what they
had, more requests running than anybody sent."""

import itertools
from collections.abc import Sequence

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.some_callers import is_of_some
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.fleet import total_at
from controlplane.diagnosis.window import DoubtKind, Window
from dataplane.engine_metrics.signal import Signal, SignalKind

_SCRAPED = (SourceKind.METRICS, SourceKind.PROMETHEUS)
_FASTER = 2.0
"""Times the greatest pace before: a process that began anew loads its weights in that interval as
well, and cannot have counted more in the rest of it."""
_LEAST_LEFT = 100.0
"""Of a counter that fell: fewer may be of the first steps of a new process."""
_MATCHED = (0.8, 1.25)
_BEYOND = 1.5
_ALWAYS = 0.8
_DRIFT = 0.25
"""So much may a factor differ between two halves of half a minute each: what leaks grows faster."""
_LEAST_READINGS = 5
_NOT_FROM_THE_START = 0.1


def judge(window: Window) -> Verdict | None:
    """LIKELY: figures that contradict themselves or each other. POSSIBLE where a name only says
    another unit than its value has, as it always did."""
    argument = Argument(window)
    found = [
        detail
        for detail in (
            _became_percent(argument, window),
            _partly_reset(argument, window),
            _too_many(argument, window),
        )
        if detail
    ]
    if found:
        return argument.verdict(Confidence.LIKELY, detail=", ".join(found))
    if not window.doubts_of(DoubtKind.UNIT_GUESSED):
        return None
    argument.need("what reads it as a ratio: thresholds, dashboards, autoscalers")
    return argument.verdict(Confidence.POSSIBLE, detail=_PERCENT)


_PERCENT = "percent under the name of a ratio"


def _became_percent(argument: Argument, window: Window) -> str:
    """A ratio before, percent since."""
    guessed = window.doubts_of(DoubtKind.UNIT_GUESSED)
    for doubt in guessed[:3]:
        argument.says(doubt.what)
    since = window.start + _NOT_FROM_THE_START * (window.end - window.start)
    if not any(doubt.at is not None and doubt.at > since for doubt in guessed):
        return ""
    argument.against("cache.thrash: whoever reads the name takes a ratio for a hundredfold one")
    return _PERCENT


def _partly_reset(argument: Argument, window: Window) -> str:
    """A counter that fell, and not to what a new process could have counted."""
    found = [
        said
        for series in window.series
        if series.signal.terms.kind is SignalKind.COUNTER
        and series.origin.kind in _SCRAPED
        and (said := _fall(series))
    ]
    for said in found[:3]:
        argument.says(said)
    if found:
        argument.against("a restart: a new process begins at 0")
    return "counters that lost a part" if found else ""


def _fall(series: Series) -> str:
    steps = list(itertools.pairwise(series.readings))
    for index, (before, after) in enumerate(steps):
        if after.value >= before.value or after.value < _LEAST_LEFT:
            continue
        usual = [(b.value - a.value) / (b.at - a.at) for a, b in steps[:index] if b.at > a.at]
        if not usual or after.at <= before.at:
            continue
        if after.value > _FASTER * max(usual) * (after.at - before.at):
            return (
                f"{series.origin.name} fell {before.raw} -> {after.raw} between two scrapes: more "
                "than a new process could have counted, less than before"
            )
    return ""


def _too_many(argument: Argument, window: Window) -> str:
    """Engines that say they run several times what was sent to them, where both agreed before."""
    running = [each for each in window.all_series(Signal.RUNNING) if each.origin.kind in _SCRAPED]
    sent = window.find(Signal.GATEWAY_IN_FLIGHT)
    if not running or sent is None or is_of_some(sent):
        return ""
    half = window.start + (window.end - window.start) / 2
    pairs = _pairs(running, sent)
    before = [pair for at, pair in pairs if at < window.start + (half - window.start) / 2]
    after = [pair for at, pair in pairs if at >= half]
    if len(after) < _LEAST_READINGS or not before:
        return ""
    matched = _MATCHED[0] <= _factor(before) <= _MATCHED[1]
    factor = _factor(after)
    beyond = sum(told >= _BEYOND * true for told, true in after) / len(after)
    if not matched or beyond < _ALWAYS or not _is_one_factor(after):
        return ""
    name = running[0].origin.name
    argument.says(
        f"{name} over all replicas is {number(total_at(running, window.end))} where the gateway "
        f"has {sent.last.raw} in flight: {factor:.2g} times as many, and as many as it before"
    )
    argument.against("release.leak: what is not released stays, and does not rise and fall with "
                     "what is in flight")  # fmt: skip
    return "gauges that are too high"


def _pairs(running: Sequence[Series], sent: Series) -> list[tuple[float, tuple[float, float]]]:
    """Of each time: what is told, and what is in flight."""
    return [
        (reading.at, (total_at(running, reading.at), reading.value))
        for reading in sent.readings
        if reading.value >= 1
    ]


def _factor(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(told for told, _ in pairs) / sum(true for _, true in pairs)


def _is_one_factor(pairs: Sequence[tuple[float, float]]) -> bool:
    """The same all the time, and nothing that was added once and stays, as what is not released."""
    middle = len(pairs) // 2
    early, late = _factor(pairs[:middle]), _factor(pairs[middle:])
    if early <= 0 or abs(late / early - 1) > _DRIFT:
        return False
    factor = _factor(pairs)
    excess = sum(told - true for told, true in pairs) / len(pairs)
    by_factor = sum((told - factor * true) ** 2 for told, true in pairs)
    by_excess = sum((told - true - excess) ** 2 for told, true in pairs)
    return by_factor < by_excess


IMPOSSIBLE_FIGURES = Rule(
    id="telemetry-impossible",
    mechanism=Mechanism.TELEMETRY_MISREAD,
    judge=judge,
    needs=("metrics pages over time", "requests in flight at the gateway"),
    told_apart="From a full cache by a value above 1 under the name of a ratio, from a restart by "
    "counters that keep a part, from a leak by a factor that stays the same.",
    remedy="Read it in the unit that it has, and rates over increases that ignore falls; find what "
    "changes the figures on their way (an exporter's version, a relabelling, a recording rule).",
    hides="A clamp to 1 or to 0 makes the panel look right and keeps the wrong figure.",
    explains=frozenset({Mechanism.ROUTING_SKEW}),
)
