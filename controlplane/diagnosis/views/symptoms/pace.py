"""Requests that get their tokens more slowly than before, or hardly any."""

from collections.abc import Iterator

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import early, late
from controlplane.diagnosis.views.felt import measures_gaps
from controlplane.diagnosis.views.single_steps import shows_single_steps
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_SLOWED = 0.5
_DIP = 0.2
"""Of the best speed of a request in the window."""
_CRAWL = 1.0
"""Tokens a second for each that runs."""
_CRAWL_BY_STEPS = 0.25
"""The same over the whole window, where each scrape shows a step or none: a busy processor takes a
second or two for a step of a small model, and not four."""
_MANY_READINGS = 16
_PARTS = 8
_SUNK = 0.6


def slower(now: Activity) -> Iterator[str]:
    """Each request gets its tokens more slowly than before, with no more of them. A figure that is
    the first after a pause counts the pause; one that dips says less than the gaps, where they are
    measured, and nothing where it is the middle of a step."""
    decode, running = now.decode, now.running
    if decode is None or running is None or len(decode.readings) < 2:
        return
    is_fine = len(decode.readings) > _MANY_READINGS
    speeds = _smooth(decode, running) if is_fine else _each(now.window, decode, running)
    if len(speeds) < 2:
        return
    half = len(speeds) // 2
    before, after = max(speeds[:half]), max(speeds[half:])
    fewer = after[1] <= before[1] * 1.2
    if after[0] < _SLOWED * before[0] and fewer:
        yield f"{decode.origin.name} for each running: {before[0]:.3g} -> {after[0]:.3g} tokens/s"
        return
    if measures_gaps(now.window) or shows_single_steps(now):
        return
    best = max(speed for speed, _, _ in speeds)
    warm = [speed for speed, _, first in speeds if not first]
    if warm and min(warm) < _DIP * best:
        yield f"{decode.origin.name} falls to {min(warm):.3g} tokens/s for each running at times"


def _each(window: Window, decode: Series, running: Series) -> list[tuple[float, float, bool]]:
    """Of each reading: tokens a second for each running, how many run, and whether it is the first
    after a pause. None at all while steps go on is no reading: llama.cpp counts a request's tokens
    when it ends."""
    speeds: list[tuple[float, float, bool]] = []
    since = window.start
    steps = window.find(Signal.STEPS)
    for reading in decode.readings:
        stepped = None if steps is None else steps.between(since, reading.at)
        if reading.value == 0 and stepped is not None and (stepped.increase or 0.0) > 0:
            since = reading.at
            continue
        beside, part = running.at(reading.at), running.between(since, reading.at)
        count = 0.0 if beside is None else beside.value
        is_first = not speeds or (part is not None and part.min == 0)
        if count > 0:
            speeds.append((reading.value / count, count, is_first))
        since = reading.at
    return speeds


def _smooth(decode: Series, running: Series) -> list[tuple[float, float, bool]]:
    """The same over eighths: between two scrapes a second apart the batch changes more than the
    pace."""
    speeds: list[tuple[float, float, bool]] = []
    for part in range(_PARTS):
        start = decode.first.at + decode.span_seconds * part / _PARTS
        end = decode.first.at + decode.span_seconds * (part + 1) / _PARTS
        made, beside = decode.between(start, end), running.between(start, end)
        if made is not None and beside is not None and beside.mean >= 1:
            speeds.append((made.mean / beside.mean, beside.mean, beside.min == 0))
    return speeds


def drafts(now: Activity) -> Iterator[str]:
    """What is drafted is accepted ever less."""
    for signal in (Signal.ACCEPTANCE_RATE, Signal.ACCEPTANCE_LENGTH):
        series = now.window.find(signal)
        if series is None or len(series.readings) < 3:
            continue
        own = 1.0 if signal is Signal.ACCEPTANCE_LENGTH else 0.0
        before = early(series) - own
        if before > 0 and late(series) - own < _SUNK * before:
            yield f"{series.origin.name} {series.first.raw} -> {series.last.raw}"
            return


def crawl(now: Activity) -> Iterator[str]:
    """Tokens come, and hardly any."""
    decode, running = now.decode, now.running
    if decode is None or running is None or late(running) <= 0:
        return
    made = now.window.find(Signal.GENERATION_TOKENS)
    if made is not None and shows_single_steps(now):
        if (made.per_second or 0.0) < _CRAWL_BY_STEPS * running.mean:
            yield f"{made.origin.name} {made.first.raw} -> {made.last.raw} for {running.last.raw}"
        return
    if late(decode) <= 0:
        return
    prefills = now.prefill is not None and late(now.prefill) > 0
    if decode.max < _CRAWL * late(running) and not prefills and len(decode.readings) > 1:
        yield f"{decode.origin.name} {decode.last.raw} for {running.last.raw} running"
