"""KV blocks that are held while nothing runs, or beyond what runs can need."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Reading, Series
from controlplane.diagnosis.rules.life.callers_gone import GONE, callers_gone
from controlplane.diagnosis.rules.life.held_seats import LEAST_SECONDS
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import from_on, stretch_while
from controlplane.diagnosis.views.moving import WORK, moves_since
from controlplane.diagnosis.views.told import (
    number_of,
    plain,
    told_number,
)
from controlplane.diagnosis.views.trend import falls, rises
from controlplane.diagnosis.views.truth import Truth
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LEAST_HELD = 0.02
"""Of the KV cache: less may be one block that a sentinel request or padding keeps."""


def held_blocks(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """The KV cache counts as held by active requests, while nothing runs."""
    kv = stretch_while(now.kv, lambda value: value >= _LEAST_HELD)
    idle = stretch_while(now.running, lambda value: value == 0)
    if kv is None or idle is None or truth.is_asleep or _is_held_by_waiting(now, truth):
        return None
    start = max(kv.first.at, idle.first.at)
    held = from_on(kv, start)
    if held is None or held.span_seconds < LEAST_SECONDS or held.last.value < held.first.value:
        return None
    argument.series(idle, "nothing runs")
    argument.series(held, "and the cache stays held")
    for sentence in truth.says:
        argument.says(sentence)
    gone = callers_gone(argument, now)
    waiting = now.waiting.last.value if now.waiting is not None else 0.0
    if waiting:
        argument.series(now.waiting, "room is missing for these")
    if now.window.find(Signal.KV_EVICTABLE) is not None:
        argument.series(now.window.find(Signal.KV_EVICTABLE), "cached and free to go")
    if truth.in_flight is not None and truth.in_flight.last.value <= waiting:
        if moves_since(now, start) or truth.is_answered or held.change > 0:
            return (
                Confidence.CERTAIN if held.change > 0 and truth.is_answered else Confidence.LIKELY
            )
        if gone and waiting and not now.window.find(Signal.DEFERRED):
            return Confidence.LIKELY
        argument.need("a one-token probe, and the usage after it")
        return Confidence.POSSIBLE
    argument.need(*truth.needs, "the usage after a step has run")
    return Confidence.POSSIBLE


_HELD_BY_WAITING = (
    r"\b(waiting|parked|pending|deferred|suspended)\b.*\b(remote|transfers?|loads?|kv)\b|"
    r"\b(held|kept|taken) by\b.*\b(waiting|queued|parked|pending|deferred)\b"
)


def _is_held_by_waiting(now: Activity, truth: Truth) -> bool:
    """Requests that somebody waits for were given their blocks, and were then put aside."""
    fact = told_number(now.window, _HELD_BY_WAITING)
    return bool(truth.is_wanted and (number_of(fact) or 0.0) > 0)


def held_until_released(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """For long nothing runs and much is held, and then it is free at once: a time limit let it go,
    and nobody who was done with it."""
    stretch = _idle_and_held(now)
    if stretch is None or now.kv is None:
        return None
    later = [each for each in now.kv.readings if each.at > stretch.last.at]
    if not later or later[0].value > _LET_GO * stretch.last.value:
        return None
    if moves_between(now, stretch.first.at, stretch.last.at):
        return None
    argument.series(now.running, f"nothing runs until {number(stretch.last.at)} s")
    argument.series(now.kv, "held all that time, and then free at once")
    argument.series(now.waiting, "room is missing for these")
    argument.series(now.window.find(Signal.PROMPT_TOKENS))
    left = left_over(argument, now.window)
    gone = callers_gone(argument, now)
    seconds = later[0].at - stretch.first.at
    bound = told_number(now.window, r"abort.*timeout|timeout.*(abort|release|lease)|lease|ttl")
    value = number_of(bound)
    is_bound = value is not None and abs(value - seconds) <= _NEAR * value
    if is_bound:
        argument.fact(bound, "as long as it was held")
    if not gone and not left:
        return None
    return Confidence.CERTAIN if left or is_bound else Confidence.LIKELY


def _idle_and_held(now: Activity) -> Series | None:
    """The longest course of the cache's usage with nothing running and no block given back."""
    if now.kv is None or now.running is None:
        return None
    best: list[Reading] = []
    current: list[Reading] = []
    for reading in now.kv.readings:
        runs = now.running.at(reading.at)
        is_idle = runs is not None and runs.value == 0
        if not is_idle or reading.value < _HELD_FOR_SURE:
            current = []
        elif current and reading.value < current[-1].value:
            current = [reading]
        else:
            current = [*current, reading]
        best = max(best, current, key=_span)
    if len(best) < 2 or _span(best) < LEAST_SECONDS:
        return None
    return now.kv.between(best[0].at, best[-1].at)


def _span(readings: list[Reading]) -> float:
    return readings[-1].at - readings[0].at if readings else -1.0


def moves_between(now: Activity, start: float, end: float) -> bool:
    """A counter of work moved from one to the other."""
    for signal in WORK:
        series = now.window.find(signal)
        part = None if series is None else series.between(start, end)
        if part is not None and (part.increase or 0.0) > 0:
            return True
    return False


def left_over(argument: Argument, window: Window) -> bool:
    """So many more were begun than were taken over as callers are known to have left."""
    counts = [
        (fact, value)
        for fact in window.facts
        if fact.unit is None and (value := fact.value) is not None and value >= _SOME
    ]
    for gone, lost in counts:
        if not re.search(GONE, plain(gone.key)):
            continue
        for more, most in counts:
            for less, least in counts:
                if gone in (more, less) or most - least != lost or least < lost:
                    continue
                argument.says(
                    f"{says(more)} - {says(less)} = {says(gone)}: those were never let go"
                )
                return True
    return False


_LET_GO = 0.5
_NEAR = 0.2
_SOME = 2.0


def held_whenever_idle(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Whenever nothing runs the cache is held as before, and work has been done in between."""
    engine = now.window.engine
    if now.kv is None or now.running is None or truth.is_wanted:
        return None
    if engine is not None and engine.name in _COUNTS_CACHED:
        return None
    if truth.is_wanted is None:
        return _fuller_each_time(argument, now)
    idle = [
        reading
        for reading in now.kv.readings
        if (at := now.running.at(reading.at)) is not None and at.value == 0
    ]
    if len(idle) < 2 or idle[-1].at - idle[0].at < LEAST_SECONDS:
        return None
    if idle[-1].value < max(_HELD_FOR_SURE, 0.9 * idle[0].value):
        return None
    if not moves_since(now, idle[0].at):
        return None
    if min(each.value for each in idle) < _HELD_FOR_SURE:
        return _held_once(argument, now, truth)
    argument.series(now.kv, "as before whenever nothing runs: the gauge is alive")
    argument.series(now.running)
    for sentence in truth.says:
        argument.says(sentence)
    gone = callers_gone(argument, now)
    for change in now.window.changes:
        argument.change(change)
    return Confidence.CERTAIN if gone else Confidence.LIKELY


def _held_once(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Nothing was held before, and much is now, with nothing running or in flight: a step that ran
    since would have set the gauge anew."""
    argument.series(now.kv, "nothing was held before it worked, and this afterwards")
    argument.series(now.running, "nothing runs")
    for sentence in truth.says:
        argument.says(sentence)
    gone = callers_gone(argument, now)
    if gone and truth.is_answered:
        return Confidence.LIKELY
    argument.need("the usage a minute later", "a one-token probe", "callers that left")
    return Confidence.POSSIBLE


def _fuller_each_time(argument: Argument, now: Activity) -> Confidence | None:
    """Nobody counts what is in flight, and the engine has nothing at all: more is held each time,
    and callers left meanwhile."""
    if now.kv is None or now.running is None or now.waiting is None:
        return None
    empty = [
        reading
        for reading in now.kv.readings
        for runs, waits in ((now.running.at(reading.at), now.waiting.at(reading.at)),)
        if runs is not None and waits is not None and runs.value == 0 and waits.value == 0
    ]
    values = [reading.value for reading in empty]
    if len(values) < 2 or sorted(values) != values or values[-1] < values[0] + _HELD_FOR_SURE:
        return None
    if empty[-1].at - empty[0].at < LEAST_SECONDS or not moves_since(now, empty[0].at):
        return None
    argument.series(now.kv, "more each time that nothing runs and nothing waits")
    argument.series(now.running)
    argument.series(now.waiting)
    gone = callers_gone(argument, now)
    argument.need("requests in flight at the gateway")
    return Confidence.LIKELY if gone else Confidence.POSSIBLE


_COUNTS_CACHED = frozenset({"trtllm", "tensorrt-llm"})
"""Their usage counts blocks that are merely kept for reuse."""
_HELD_FOR_SURE = 0.1


def held_beyond_contexts(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Less and less runs, more and more is held: far beyond what those contexts can be."""
    kv, running = now.kv, now.running
    if kv is None or running is None or len(kv.readings) < 2 or running.first.value <= 0:
        return None
    fewer = running.last.value <= _FEWER * running.first.value
    if not fewer or kv.last.value - kv.first.value < _MORE:
        return None
    if running.last.value <= 0:
        return _held_by_the_last(argument, now, truth)
    held = now.window.find(Signal.CONTEXT_TOKENS)
    each = told_number(now.window, LENGTH_OF_ONE, without=r"limit|max|before|longest")
    length = number_of(each)
    tokens = None
    if held is not None and held.last.value > 0:
        tokens = held.last.value
    elif now.capacity is not None:
        tokens = now.capacity * kv.last.value
    argument.series(kv, "more is held")
    argument.series(running, "while less runs")
    gone = callers_gone(argument, now)
    if tokens is not None and length is not None and each is not None and length >= A_LENGTH:
        explained = running.last.value * length
        if tokens < BEYOND * explained:
            return None
        argument.says(
            f"{running.last.raw} running x {each.key} {each.raw} = {number(explained)} of "
            f"{number(tokens)} tokens that are held"
        )
        if gone:
            return Confidence.CERTAIN
    if not gone:
        argument.need("context lengths of what runs", "requests whose callers left")
        return Confidence.POSSIBLE
    return Confidence.LIKELY


def _held_by_the_last(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Step by step less runs and more is held, until nothing runs; nothing is in flight, and the
    callers are known to have left: whoever may still wait there waits for nobody."""
    kv, running = now.kv, now.running
    if kv is None or running is None or truth.is_wanted is not False:
        return None
    grows = rises(kv.values) and falls(running.values)
    if not grows or kv.last.value < _NEARLY_FULL or not _waits_in_vain(now):
        return None
    argument.series(kv, "more and more is held")
    argument.series(running, "while less runs, and in the end nothing")
    argument.series(now.waiting, "room is missing for these")
    argument.series(now.window.find(Signal.DECODE_QUEUE))
    for sentence in truth.says:
        argument.says(sentence)
    if not callers_gone(argument, now):
        argument.need("requests whose callers left")
        return Confidence.POSSIBLE
    return Confidence.CERTAIN


def _waits_in_vain(now: Activity) -> bool:
    """Others are there that nothing keeps out but what is held; what is merely cached would go."""
    decode = now.window.find(Signal.DECODE_QUEUE)
    queues = [series for series in (now.waiting, decode) if series is not None]
    return any(series.last.value > 0 for series in queues)


_NEARLY_FULL = 0.9
LENGTH_OF_ONE = (
    r"(context|sequence|request)s?( \w+)* (tokens? )?(mean|each|avg|average|p50|median)"
    r"|(mean|avg|average|median) (context|sequence)|tokens (per|a) (request|sequence|context)"
    r"|(context|sequence)s?( (tokens|length))?( \w+)* (running|active)\b"
    r"|\b(running|active)( \w+)* (context|sequence)"
)
_FEWER = 0.5
_MORE = 0.2
BEYOND = 3.0
A_LENGTH = 16
