"""startup.slow: it came up, and one stage that can be named took most of the time."""

import re
from dataclasses import replace

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.looks import surest_of
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.life.stages import Stage, Start, start_of
from controlplane.diagnosis.rules.life.start_beside import judge_beside
from controlplane.diagnosis.rules.life.weights import cite_reading, is_fast, size_of_weights
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import Contrast, contrasts
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.told import plain, texts_of, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_MOST = 0.4
"""Of the whole start: there are five stages."""
_LONG_SECONDS = 120.0
"""Below two minutes a start is what it is."""
_VERY_LONG_SECONDS = 600.0
"""No start of one node needs ten minutes, however they are spread."""
_LONGER = 1.5
"""Than usual, where the usual is known."""
_REMEDIES = {
    "pulling the image": "Keep the image on the node, or make it smaller; no engine setting helps.",
    "fetching weights": "Weights on a local disk or in a node's cache, or a streaming loader.",
    "loading weights": (
        "Weights on a local disk, a streaming loader, or shards of which each rank reads its own "
        "part; a compile cache does not touch it."
    ),
    "compiling": "Keep the compile cache across starts, or compile less; faster storage does not.",
    "checking peers": "Keep the cache of that check across starts, or skip it.",
    "capturing graphs": "Capture fewer batch sizes; faster storage does not help.",
    "profiling and warm-up": (
        "Shrink the profiling run (seats, step budget, images), or keep a warm replica; a compile "
        "cache does not touch it."
    ),
    "placing": "Keep a node or a warm replica ready; no engine setting helps.",
}


def _judge(window: Window) -> Verdict | None:
    return None if _failed(window) else surest_of(_judge_alone, judge_beside)(window)


def _judge_alone(window: Window) -> Verdict | None:
    start = start_of(window)
    if start is None or start.total_seconds < _LONG_SECONDS:
        return _compared(window)
    usual = _usual(window, start)
    if usual is not None and usual.factor < _LONGER:
        return None
    stage = start.longest
    if stage is None:
        return None
    is_named = _is_of_one_stage(window, start, stage) or _is_spread(window, start)
    if not is_named and start.total_seconds < _VERY_LONG_SECONDS:
        return None
    argument = Argument(window)
    _cite(argument, window, start, stage, usual)
    since = _served_since(window)
    if since is not None:
        argument.against(f"it has served for {number(since)} s since: nobody waits for it now")
        argument.need("whether the start is what is asked about")
        confidence = Confidence.POSSIBLE
    elif start.is_up:
        argument.against("engine.hung and a failed start: it came up")
        confidence = _sure(argument, window, start, usual, is_named=is_named)
    else:
        argument.need("whether it becomes ready")
        confidence = Confidence.LIKELY if _progresses(window) else Confidence.POSSIBLE
    argument.against("capacity.late: nobody says that load came and went meanwhile")
    name = "loading weights" if cite_reading(argument, window, stage) else stage.name
    return argument.verdict(confidence, detail=name, remedy=_REMEDIES.get(name))


def _is_of_one_stage(window: Window, start: Start, stage: Stage) -> bool:
    """It takes most of the start, more than it usually does, and is not known to be fast."""
    is_slow = stage.seconds > stage.usual_seconds and not is_fast(window, stage)
    return is_slow and stage.seconds >= _MOST * max(start.total_seconds, stage.seconds)


_FAR_BEYOND = 2.0
"""Times what a stage may take: no usual model's size explains it."""
_PART = 0.2
"""Of the whole: what is far beyond its time and hardly counts makes no start long."""


def _sure(
    argument: Argument, window: Window, start: Start, usual: Contrast | None, *, is_named: bool
) -> Confidence:
    """CERTAIN against a usual start or a size. A start of four minutes is what a large model
    takes: below ten without either, and with no stage far beyond its time, POSSIBLE."""
    beyond = [
        stage
        for stage in start.stages
        if stage.seconds >= _FAR_BEYOND * stage.usual_seconds
        and stage.seconds >= _PART * start.total_seconds
    ]
    of_a_size = size_of_weights(window) and any(
        stage.name == "loading weights" and stage.seconds > stage.usual_seconds
        for stage in start.stages
    )
    if is_named and (usual is not None or of_a_size):
        return Confidence.CERTAIN
    if start.total_seconds >= _VERY_LONG_SECONDS or beyond:
        return Confidence.LIKELY
    argument.need("how long this start usually takes", "size of the weights")
    return Confidence.POSSIBLE


_SPREAD_SECONDS = 180.0
"""Where no stage alone is long: three minutes until anybody is served."""
_ACCOUNTED = 0.6
"""Of the whole, by stages that were timed."""
_LEAST_STAGES = 3


def _is_spread(window: Window, start: Start) -> bool:
    """Several stages share a long start, and nothing else happened that could be asked about."""
    if not start.is_up or start.total_seconds < _SPREAD_SECONDS:
        return False
    if any(series.max > 0 for series in window.all_series(Signal.GENERATION_TOKENS)):
        return False
    timed = [stage for stage in start.stages if not is_fast(window, stage)]
    known = sum(stage.seconds for stage in timed)
    return len(timed) >= _LEAST_STAGES and known >= _ACCOUNTED * start.total_seconds


_OVER_SECONDS = 600.0
"""After it came up: what is wrong so much later has another cause."""


def _served_since(window: Window) -> float | None:
    """For how long it has worked since the start that the log tells of; None where that is not
    known, or not long."""
    ended = [event.at for event in window.events_of(*_OF_A_START) if event.at is not None]
    worked = [
        reading.at
        for signal in (Signal.GENERATION_RATE, Signal.GENERATION_TOKENS)
        for series in window.all_series(signal)
        for reading in series.readings
        if reading.value > 0
    ]
    if not ended or not worked:
        return None
    seconds = max(worked) - max(ended)
    return seconds if seconds >= _OVER_SECONDS else None


_OF_A_START = (
    LogKind.STARTING,
    LogKind.WEIGHTS_LOADED,
    LogKind.COMPILED,
    LogKind.GRAPH_CAPTURE_FINISHED,
    LogKind.INITIALIZED,
    LogKind.READY,
)


def _compared(window: Window) -> Verdict | None:
    """The same weights were loaded several times, and one place gives them far more slowly."""
    loads = [
        (fact.value, says(fact))
        for fact in told_all(window, r"^(model |weights )?load( time)?( s)?$")
        if fact.value is not None and fact.unit is Unit.SECONDS
    ]
    for fact in window.facts:
        times = durations_in(fact.raw) if fact.value is None else ()
        if len(times) == 1 and re.search(r"\b(load(ed|ing)?|reload\w*)\b", fact.raw, re.IGNORECASE):
            loads.append((times[0][1], says(fact)))
    texts = " ".join(texts_of(window))
    if len(loads) < _LEAST_LOADS or not re.search(_PLACES, texts, re.IGNORECASE):
        return None
    loads.sort(reverse=True)
    (slowest, _), (fastest, _) = loads[0], loads[-1]
    if slowest < _LONG_SECONDS or fastest * _FAR_FASTER > slowest:
        return None
    argument = Argument(window)
    for _, sentence in loads:
        argument.says(sentence)
    for change in window.changes:
        argument.change(change)
    argument.against("engine.hung: the same load ends where weights are read faster")
    stage = "loading weights"
    return argument.verdict(Confidence.LIKELY, detail=stage, remedy=_REMEDIES[stage])


_LEAST_LOADS = 3
_FAR_FASTER = 5.0
_PLACES = r"\b(page ?cache|nfs|volume|disk|nvme|network (drive|storage)|s3|efs|lustre|ceph|pvc)\b"
"""Where weights are read from."""


def _failed(window: Window) -> bool:
    """It never came up, for another reason."""
    return bool(
        window.events_of(
            LogKind.OUT_OF_MEMORY,
            LogKind.FREE_MEMORY_TOO_LITTLE,
            LogKind.KV_CACHE_TOO_SMALL,
            LogKind.FAILED_TO_START,
            LogKind.HOST_OUT_OF_MEMORY,
        )
    )


def _usual(window: Window, start: Start) -> Contrast | None:
    """The same start, as it usually goes. Of two the one that is as long as this start is this."""
    found = contrasts(window, r"start|ready|boot|load|compile|init", base=_USUAL, other=_NOW)
    turned = [_turned(each) if _is_of(each, start) else each for each in found]
    return max(turned, key=lambda contrast: contrast.value, default=None)


def _is_of(contrast: Contrast, start: Start) -> bool:
    """What it takes for the usual one is this start."""
    here, other = (
        abs(value - start.total_seconds) <= _ABOUT * start.total_seconds
        for value in (contrast.base_value, contrast.value)
    )
    return here and not other


def _turned(contrast: Contrast) -> Contrast:
    return replace(
        contrast,
        base=contrast.other,
        other=contrast.base,
        base_value=contrast.value,
        value=contrast.base_value,
    )


_ABOUT = 0.1


_USUAL = (
    r"\b(before|baseline|usual|usually|normal|normally|old|previous|last \d+( starts)?|expected|p50"
    r"|median|typical|yesterday|warm|other nodes?|elsewhere|starts)\b"
)
_NOW = r"\b(after|now|new|today|current|cold|this)\b"


def _cite(
    argument: Argument, window: Window, start: Start, stage: Stage, usual: Contrast | None
) -> None:
    share = stage.seconds / max(start.total_seconds, stage.seconds)
    argument.says(
        f"{stage.name} took {number(stage.seconds)} s of {number(start.total_seconds)} s "
        f"({share * 100:.0f} %): {stage.says}"
    )
    argument.says(start.total_says)
    for other in start.stages:
        if other is not stage:
            argument.says(other.says)
    if usual is not None:
        argument.says(f"{usual.says}: {number(usual.factor)} times the usual")
    for event in window.events_of(LogKind.WEIGHTS_LOADED)[:2]:
        argument.says(" ".join(event.line.split())[:160])
    for event in window.events_of(LogKind.WEIGHTS_LOADING)[-2:]:
        argument.says(f"it moves: {' '.join(event.line.split())[:160]}")
    for fact in told_all(
        window,
        r"storage|disk|network|fs\b|read|ranks|weights|checkpoint|shards|cache|restart|nccl|image",
    ):
        argument.fact(fact)
    for change in window.changes:
        argument.change(change)


def _progresses(window: Window) -> bool:
    """Its own counts of shards or graphs move."""
    for kind in (LogKind.WEIGHTS_LOADING, LogKind.GRAPH_CAPTURE_STARTED):
        done = [event.fields["done"] for event in window.events_of(kind) if "done" in event.fields]
        if len(done) > 1 and done[-1] > done[0]:
            return True
    return any(re.search(r"progress", plain(fact.key)) for fact in window.facts)


STARTUP_SLOW = Rule(
    id="startup-slow",
    mechanism=Mechanism.STARTUP_SLOW,
    judge=_judge,
    needs=("the engine's log of its start, with times",),
    told_apart=(
        "From engine.hung by stages that end; from a failed start by an engine that comes up; from "
        "capacity.late by no load that came and went meanwhile; where replicas are seen side by "
        "side, from a start that is long everywhere."
    ),
    remedy="Time each stage and shorten the one that takes most; keep a warm replica until then.",
    hides=(
        "A warm replica hides the slow start until a node is lost; a longer start-up probe hides "
        "one that never ends."
    ),
    explains=frozenset({Mechanism.HOST_BOUND, Mechanism.ROUTING_SKEW}),
)
