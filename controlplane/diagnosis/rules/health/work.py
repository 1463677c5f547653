"""Something is done, or nothing is asked for."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.draining import arrivals_of
from controlplane.diagnosis.views.latency import is_quick, latencies
from controlplane.diagnosis.views.served import served
from controlplane.diagnosis.views.told import number_of, says_no, told_all, told_number
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.lines import DECODE_SPEED
from controlplane.diagnosis.words.speeds import OF_PROMPTS
from dataplane.engine_metrics.signal import Signal

_IDLE_SECONDS = 10.0
_ABOUT = 0.02
_HELD_IDLE = 0.02
_PROBED = 1.0
"""Tokens a second: a probe asks for one, every few seconds."""
_FASTER = 1.1
"""What a program that decodes once ends with."""
_WITHOUT = r"\b(without|plain|baseline|no|off|vanilla|before)\b"
_FAILURES = r"\b(errors?|failures?|failed)\b"


def works(argument: Argument, now: Activity) -> bool:
    """Something runs, and tokens or answers come."""
    running, decode = now.running, now.decode
    ran = running is not None and max(late(running), running.last.value) > 0
    if not ran or not now.moves(now.window.start, now.window.end):
        return False
    argument.series(running)
    if decode is not None and decode.max == 0:
        _cite_what_is_read(argument, now)
        return True
    argument.series(decode, "work goes on")
    if running is not None and decode is not None and running.last.value > 0:
        _cite_speed(argument, now)
    for signal in (Signal.GENERATION_TOKENS, Signal.FINISHED):
        argument.series(now.window.find(signal))
    return True


def serves(argument: Argument, now: Activity) -> bool:
    """Where no engine's gauge is at hand: requests are in flight, answers come quickly, and nobody
    counts one that failed."""
    inside = now.in_flight
    if inside is None or inside.last.value <= 0:
        return False
    failures = told_all(now.window, _FAILURES)
    if not failures or not all(says_no(fact) or number_of(fact) == 0 for fact in failures):
        return False
    quick = [fact for fact in latencies(now.window) if is_quick(fact)]
    if not quick:
        return False
    argument.series(inside)
    for fact in quick:
        argument.fact(fact, "answers come")
    return True


def has_served(argument: Argument, now: Activity) -> bool:
    """Somebody counts what was answered, and nobody one that failed."""
    count = served(now.window)
    argument.fact(count, "and none failed")
    return count is not None


def reads_what_is_new(argument: Argument, window: Window) -> bool:
    """A slot keeps what it has of the prompt, and what is computed is what came new."""
    started = [
        event for event in window.events_of(LogKind.PROMPT_STARTED) if "tokens" in event.fields
    ]
    kept = [event for event in window.events_of(LogKind.CACHE_CUT) if "from" in event.fields]
    new = number_of(told_number(window, r"\bnew\b.*tokens|tokens.*\bnew\b"))
    if not started or not kept or new is None:
        return False
    total, cut = started[-1].fields["tokens"], kept[-1].fields["from"]
    if cut <= 0 or abs(total - cut - new) > _ABOUT * total:
        return False
    argument.says(
        f"{number(cut)} tokens kept of {number(total)}, and {number(total - cut)} read: what is new"
    )
    for event in (*window.events_of(LogKind.SLOT_CHOSEN)[-1:], *kept[-1:]):
        argument.says(event.line.strip()[:200])
    return True


def pays(argument: Argument, now: Activity) -> bool:
    """What was bought for speed gives it: faster with it than without."""
    speeds = [
        float(found[1])
        for line in now.window.lines_with(DECODE_SPEED)
        if (found := re.search(DECODE_SPEED, line, re.IGNORECASE)) is not None
    ]
    plain_speed = told_number(now.window, _WITHOUT, without=OF_PROMPTS)
    value = number_of(plain_speed)
    if not speeds or plain_speed is None or not value or speeds[-1] < _FASTER * value:
        return False
    argument.fact(plain_speed, f"{speeds[-1]:g} tokens/s with it")
    for signal in (Signal.DRAFT_TOKENS, Signal.ACCEPTED_TOKENS, Signal.ACCEPTANCE_RATE):
        argument.series(now.window.find(signal))
    return True


def _cite_what_is_read(argument: Argument, now: Activity) -> None:
    """Whoever embeds, ranks or classifies reads prompts and ends requests, and writes nothing."""
    argument.series(now.prefill, "prompts are read, and nothing is to be written")
    for signal in (Signal.PROMPT_TOKENS, Signal.FINISHED):
        argument.series(now.window.find(signal))


def _cite_speed(argument: Argument, now: Activity) -> None:
    """What each request gets: it rises as the batch empties."""
    running, decode = now.running, now.decode
    if running is None or decode is None or len(decode.readings) < 2:
        return
    first = running.at(decode.first.at)
    last = running.at(decode.last.at)
    if first is None or last is None or not first.value or not last.value:
        return
    before, after = decode.first.value / first.value, decode.last.value / last.value
    argument.says(
        f"each running gets {number(round(before, 1))} -> {number(round(after, 1))} tokens/s"
    )


def idles(argument: Argument, now: Activity) -> bool:
    """Nothing runs, and nothing is asked of it either."""
    running = now.running
    if _stands_still(argument, now):
        return True
    if running is None or running.last.value > 0 or now.in_flight is None:
        arrivals = arrivals_of(now)
        if arrivals is None or arrivals.value > 0 or running is None or running.last.value > 0:
            return False
        argument.says(f"nothing is asked of it ({arrivals.says})")
        argument.series(running)
        return True
    if now.in_flight.last.value > 0:
        return False
    argument.series(running)
    argument.series(now.in_flight, "nothing is asked of it")
    return True


def _stands_still(argument: Argument, now: Activity) -> bool:
    """On a metrics page: nothing runs or waits, no block is held, and all counters stand still
    together. A log falls silent as well when its engine does."""
    running, kv = now.running, now.kv
    if running is None or running.origin.kind is SourceKind.LOG or running.max > 0:
        return False
    counted = now.moves(now.window.start, now.window.end)
    waits = now.backlog is not None and now.backlog.max > 0
    probed = now.decode is not None and now.decode.max <= _PROBED
    if waits or not (counted is False or probed) or running.span_seconds < _IDLE_SECONDS:
        return False
    if kv is not None and kv.max > _HELD_IDLE:
        return False
    if now.in_flight is not None and now.in_flight.last.value > 0:
        return False
    why = "no counter moves" if counted is False else "hardly a token, such as of probes"
    argument.series(running, f"nothing runs, and {why}")
    return True
