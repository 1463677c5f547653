"""Signs of health, each of which says what it saw."""

import re
from itertools import pairwise

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.counted_at_end import is_told_by_ends
from controlplane.diagnosis.views.course import from_on
from controlplane.diagnosis.views.kept_prompts import KeptPrompts, kept_prompts
from controlplane.diagnosis.views.latency import is_quick, latencies
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.symptoms.waiting import FEW_WAIT
from controlplane.diagnosis.views.told import number_of, says_no, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.devices import OF_DEVICE
from dataplane.engine_metrics.signal import Signal, Unit

AS_USUAL = 1.15
"""Times what was before, or its inverse."""
_PACE_SECONDS = 20.0
_FEW_BETWEEN = 2.0
"""Requests between the phases: they are handed over with the next steps."""


def keeps_its_pace(now: Activity) -> bool:
    """Tokens came all along, read several times over half a minute: a pace that falls is a
    symptom, and was looked for."""
    decode = now.decode
    if decode is None or decode.max == 0:
        return False
    return len(decode.readings) > 1 and decode.span_seconds >= _PACE_SECONDS


def steps_keep_their_pace(argument: Argument, now: Activity) -> bool:
    """Where tokens are counted when a request ends, and steps as they go: answers end, steps go on
    in each part of the window, and they do not get fewer."""
    made, steps = now.window.find(Signal.GENERATION_TOKENS), now.window.find(Signal.STEPS)
    if made is None or steps is None or not is_told_by_ends(made, now.window):
        return False
    if not made.increase or steps.span_seconds < _STEPS_SECONDS:
        return False
    part = steps.span_seconds / _STEP_PARTS
    starts = [steps.first.at + part * index for index in range(_STEP_PARTS)]
    parts = [from_on(steps.between(steps.first.at, start + part), start) for start in starts]
    paces = [each.per_second for each in parts if each is not None]
    known = [pace for pace in paces if pace is not None]
    if len(known) < _STEP_PARTS or min(known) < _GOES_ON * max(known):
        return False
    if known[-1] < _STEADY * known[0]:
        return False
    argument.series(steps, "steps go on; tokens are counted when a request ends")
    return True


_STEPS_SECONDS = 9.0
_STEP_PARTS = 3
_GOES_ON = 0.1
"""Of the fastest part: prompts are read in steps as well, which take their time."""
_STEADY = 0.5
"""Of the first part."""


def stands_ready(argument: Argument, now: Activity) -> bool:
    """It says so itself, beside a page on which nothing runs or waits for long: it answers, or none
    of its slots is busy. A page of llama.cpp's server comes from the loop that serves requests."""
    engine, running, waiting = now.window.engine, now.running, now.waiting
    if engine is None or engine.name != "llama.cpp" or running is None or waiting is None:
        return False
    if running.max > 0 or waiting.max > 0 or len(running.readings) < _READY_PAGES:
        return False
    health = told_number(now.window, r"^health$")
    if health is None or number_of(health) != _OK:
        return False
    argument.fact(health, "it answers, as do its pages, from the loop that serves requests")
    return True


_READY_PAGES = 8
_OK = 200


def queue_is_fine(argument: Argument, now: Activity) -> bool:
    """What waits is let in. Where no queue is counted, first tokens that come at once say so."""
    backlog = now.backlog
    nothing_runs = now.running is not None and now.running.last.value == 0
    if backlog is None:
        return _nothing_waits_between(argument, now) or _first_tokens_are_quick(argument, now)
    if nothing_runs and backlog.last.value > 0:
        return False
    argument.series(backlog, "nothing waits" if backlog.max == 0 else "what waits is let in")
    queue = now.window.find_histogram(Signal.QUEUE_TIME)
    mean = None if queue is None else queue.mean
    if queue is not None and mean is not None:
        argument.histogram(
            queue, mean, f"{queue.origin.name}: {mean:.2g} s in the queue on average"
        )
    return True


def _nothing_waits_between(argument: Argument, now: Activity) -> bool:
    """Of workers of two phases: hardly any request is on its way from one to the other."""
    signals = (Signal.PREFILL_QUEUE, Signal.DECODE_QUEUE, Signal.TRANSFER_QUEUE)
    found = [series for signal in signals if (series := now.window.find(signal)) is not None]
    inside = 0.0 if now.in_flight is None else now.in_flight.last.value
    if not found or max(series.max for series in found) > max(_FEW_BETWEEN, FEW_WAIT * inside):
        return False
    for series in found:
        argument.series(series, "nothing piles up")
    return True


def _first_tokens_are_quick(argument: Argument, now: Activity) -> bool:
    quick = [
        fact
        for fact in latencies(now.window)
        if "ttft" in fact.words and (fact.quantile or 0.0) >= _TAIL and is_quick(fact)
    ]
    for fact in quick:
        argument.fact(fact, "nobody waits for long")
    return bool(quick)


_TAIL = 0.9


def agrees(argument: Argument, now: Activity) -> bool:
    """The gateway counts as many as the engine; what our records say of both is said once."""
    inside, running = now.in_flight, now.running
    if inside is None or running is None or running.origin.kind is SourceKind.RECORDS:
        return False
    argument.series(inside, "as many as the engine says")
    return True


def throws_nobody_out(argument: Argument, now: Activity) -> bool:
    thrown = preempting(now)
    if thrown is not None:
        argument.says(f"hardly anybody is thrown out ({thrown.says})")
    argument.series(now.kv)
    if now.kv is not None and now.is_full:
        argument.against("a full cache is what it is for, while nobody is thrown out or waits")
    return thrown is not None or bool(now.has_room)


def ends_well(argument: Argument, now: Activity) -> bool:
    """Somebody counts what goes wrong, and it is nothing."""
    found = False
    for signal in (Signal.FAILED, Signal.REJECTED, Signal.ABORTED):
        series = now.window.find(signal)
        if series is not None and series.increase is not None:
            argument.series(series)
            found = True
    for fact in told_all(
        now.window, r"\b(errors?|failures?|failed|rejected|refused|restarts?|retractions)\b"
    ):
        if says_no(fact) or number_of(fact) == 0:
            argument.fact(fact)
            found = True
    return found or now.finished is not None


def as_before(argument: Argument, window: Window) -> bool:
    """What was measured before and now is the same."""
    found = False
    for fact in window.facts:
        if re.fullmatch(_UNCHANGED, fact.raw.strip().lower()):
            argument.fact(fact)
            found = True
    for contrast in contrasts(
        window, r"\b(ttft|tpot|itl|latency|e2e|arrivals|tok\w*|throughput|rps)\b"
    ):
        if 1 / AS_USUAL <= contrast.factor <= AS_USUAL:
            argument.says(f"{contrast.says}: as before")
            found = True
    return found


def in_time(argument: Argument, window: Window) -> bool:
    """Latencies that somebody told, none of which is a symptom."""
    facts = told_all(
        window, r"\b(ttft|tpot|itl|latency|e2e)\b|start to ready", without=r"before|old|other|max"
    )
    for fact in facts[-4:]:
        argument.fact(fact)
    return bool(facts)


_MEMORY = r"(gpu|host|vram|smi|rss|memory)\b.*\b(used|in use|mib|gib)\b"
_NOT_USED = r"total|limit|size|free|available|swap"


def holds_what_it_took(argument: Argument, window: Window) -> bool:
    """Memory that was taken at the start, and has not grown since."""
    for contrast in contrasts(
        window,
        _MEMORY,
        without=_NOT_USED,
    ):
        if contrast.base.key != contrast.other.key or contrast.factor > AS_USUAL:
            continue
        if _levels_off(window, contrast.other.key):
            argument.says(f"{contrast.says}: it does not grow, or ever less")
            return True
    used = told_number(window, r"(smi|vram|gpu( memory)?) used")
    total = told_number(window, r"(card|gpu|vram).*\b(total|size|mib|gib)\b", without=r"used|free")
    share = told_number(window, r"gpu memory utili[sz]ation|mem fraction static")
    held, whole, wanted = number_of(used), number_of(total), number_of(share)
    if used is None or total is None or not held or not whole or not wanted:
        return False
    if not 0.9 <= held / (whole * wanted) <= AS_USUAL:
        return False
    argument.fact(
        used, f"{number(wanted)} of {total.raw}, taken at the start for weights and cache"
    )
    return True


def keeps_within_its_limit(argument: Argument, window: Window) -> bool:
    """A cache of prompts is as full as it may be and drops its oldest, or is not full yet and is
    all that the memory grew by; and no prompt is read anew."""
    kept = kept_prompts(window)
    if kept is None or window.events_of(LogKind.FULL_REPROCESS):
        return False
    if not kept.is_full and not _grew_by(window, kept):
        return False
    argument.says(kept.says)
    argument.against("release.leak and oom.host_memory: it grows no further than its limit")
    return True


def _grew_by(window: Window, kept: KeptPrompts) -> bool:
    """Memory of the host was told more than once, what it grew by is kept there, and there is room
    for the rest of it where the size of the host is told."""
    found = [
        contrast
        for contrast in contrasts(window, rf"{_MEMORY}|\brss\b", without=_NOT_USED)
        if contrast.base.key == contrast.other.key
        and contrast.other.unit is Unit.BYTES
        and not re.search(OF_DEVICE, contrast.keys)
    ]
    if not found or not all(kept.explains(each.value - each.base_value) for each in found):
        return False
    whole = number_of(told_number(window, _OF_HOST, without=rf"{OF_DEVICE}|cache"))
    return whole is None or whole - max(each.value for each in found) >= kept.limit - kept.sizes[-1]


_OF_HOST = r"\b(host|memory|ram)\b.*\b(total|size|limit)\b"


def _levels_off(window: Window, key: str) -> bool:
    """It stands, or grows of late far more slowly than at first: what is filled once does, and what
    leaks does not."""
    readings = [(fact.at, fact.value) for fact in window.facts if fact.key == key and fact.value]
    if readings[-1][1] <= readings[0][1] * _STANDS:
        return True
    steps = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in pairwise(readings)
        if after[0] > before[0]
    ]
    return len(steps) > 1 and steps[-1] <= _EVER_LESS * steps[0]


_STANDS = 1.02
_EVER_LESS = 0.15


def reuses(argument: Argument, window: Window) -> bool:
    if any(event.fields.get("from", 0.0) > 0 for event in window.events_of(LogKind.CACHE_CUT)):
        return True
    rates = hit_rates(window)
    if rates is None or rates.last.value <= 0:
        return False
    argument.series(rates)
    return rates.last.value >= rates.first.value


def came_up(argument: Argument, window: Window) -> bool:
    """It started, as fast as it usually does."""
    ready = window.last_event(LogKind.READY)
    if ready is None:
        return False
    for contrast in contrasts(
        window,
        r"ready|start ?up|cold start|boot",
        base=r"\b(last|usual|usually|median|p50|before)\b",
    ):
        factor = contrast.factor
        if 1 / AS_USUAL <= factor <= AS_USUAL:
            argument.says(f"{contrast.says}: as usual")
            argument.says(ready.line.strip())
            return True
    return False


_UNCHANGED = r"unchanged|as before|as (usual|always)|the same|stable|steady"


def meets_what_is_expected(argument: Argument, now: Activity) -> bool:
    """As fast as somebody said that it should be."""
    found = met(now)
    for fact in found:
        argument.fact(fact, "and that is what it does")
    return bool(found)


def met(now: Activity) -> list[Fact]:
    """Speeds that are expected, and reached by what is measured or told."""
    speeds = [fact.value for fact in _speeds(now.window) if fact.value]
    if now.decode is not None and now.decode.last.value > 0:
        speeds.append(now.decode.last.value)
    return [
        fact
        for fact in told_all(now.window, _EXPECTED)
        if fact.unit is Unit.TOKENS_PER_SECOND
        and fact.value
        and any(_NEARLY * fact.value <= speed for speed in speeds)
    ]


def _speeds(window: Window) -> list[Fact]:
    return [
        fact
        for fact in told_all(window, ".", without=_EXPECTED)
        if fact.unit is Unit.TOKENS_PER_SECOND and fact.load is None
    ]


_EXPECTED = r"\b(expected|target|wanted|promised|advertised|reference|spec|nominal)\b"
_NEARLY = 0.92
