"""Some run, others wait beside free blocks, and none of them is let in."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.queue.one_piece import may_hide_a_prompt
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import is_sustained, late, stretch_while
from controlplane.diagnosis.views.filling import is_filled_by_prefill
from controlplane.diagnosis.views.told import told_number
from controlplane.diagnosis.words.progress import STUCK
from dataplane.engine_metrics.signal import Signal

FEW = 0.5
"""Of the cache: the rest would hold a typical request many times over."""
LEAST_SECONDS = 15.0
_CRAWL = 0.5
"""Tokens a second for each that runs: no engine decodes so slowly while it works."""
_HELD_BACK_NEEDS = (
    "the seat limit (max-num-seqs, max-running-requests, slots)",
    "LoRA slots and the adapters of the waiting requests",
    "whether waiting requests are structured output (a grammar that is being compiled)",
    "prompt lengths of the waiting requests",
)


def crawling(now: Activity) -> Verdict | None:
    """Some are left in the batch, next to nothing comes of them, and nobody is let in."""
    waiting = stretch_while(now.waiting, lambda value: value > 0)
    running, decode, finished = now.running, now.decode, now.finished
    if waiting is None or running is None or decode is None or not _crawls(now, waiting):
        return None
    argument = Argument(now.window)
    argument.series(running, f"of {now.seats:.0f} seats" if now.seats else "")
    argument.series(waiting, "none is admitted")
    for part in now.window.all_series(Signal.WAITING_BY_REASON):
        reason = part.labels.get("reason", "")
        argument.says(f"{part.origin.name} {reason} {part.last.raw}")
    argument.series(now.kv, "there is room")
    argument.series(now.window.find(Signal.GENERATION_TOKENS), "next to nothing")
    argument.series(decode, "next to nothing")
    argument.series(finished, "no request ends")
    argument.series(now.in_flight)
    argument.fact(told_number(now.window, STUCK))
    argument.against("queue.overload: seats and blocks are free")
    argument.against("cache.thrash: nobody is thrown out")
    is_put_off = _is_put_off(now, waiting)
    is_silent = late(decode) == 0 and not is_put_off
    if is_silent and may_hide_a_prompt(argument, now, waiting.span_seconds):
        return argument.verdict(Confidence.POSSIBLE)
    if finished is not None and (is_put_off or now.in_flight is not None):
        sure = is_put_off and now.in_flight is not None
        return argument.verdict(Confidence.CERTAIN if sure else Confidence.LIKELY)
    argument.need("requests finished over time", "what the waiting requests wait for")
    return argument.verdict(Confidence.POSSIBLE)


def _crawls(now: Activity, waiting: Series) -> bool:
    """Nothing ends, hardly a token comes, no prompt is read, and there are room and seats."""
    running, decode, kv, seats = now.running, now.decode, now.kv, now.seats
    if running is None or decode is None or kv is None or running.last.value <= 0:
        return False
    reads = now.prefill is not None and late(now.prefill) > 0
    if is_filled_by_prefill(now) or (reads and not _is_put_off(now, waiting)):
        return False
    if now.finished is not None and now.finished.increase:
        return False
    if late(decode) > _CRAWL * running.last.value or kv.max >= FEW:
        return False
    if waiting.last.value < running.last.value or (seats and running.last.value > FEW * seats):
        return False
    return is_sustained(waiting, LEAST_SECONDS)


def _is_put_off(now: Activity, waiting: Series) -> bool:
    """Most of those that wait, by the scheduler itself."""
    parts = now.window.all_series(Signal.WAITING_BY_REASON)
    put_off = sum(part.last.value for part in parts if part.labels.get("reason") == "deferred")
    return put_off > FEW * waiting.last.value


def held_back(now: Activity) -> Verdict | None:
    """Something runs and makes progress, others wait beside free blocks, and no limit is known."""
    waiting = stretch_while(now.waiting, lambda value: value > 0)
    running = now.running
    if waiting is None or running is None or now.kv is None or now.kv.max >= FEW:
        return None
    if running.last.value <= 0:
        return None
    is_flat = running.is_constant and waiting.last.value >= waiting.first.value
    if not is_flat or not is_sustained(waiting, LEAST_SECONDS) or now.seats is not None:
        return None
    argument = Argument(now.window)
    argument.series(running, "they make progress")
    argument.series(waiting, "none is admitted")
    argument.series(now.kv, "there is room")
    argument.series(now.decode)
    argument.against("what runs makes progress, so the scheduler itself is alive")
    argument.need(*_HELD_BACK_NEEDS)
    return argument.verdict(Confidence.POSSIBLE, detail="something keeps requests out")
