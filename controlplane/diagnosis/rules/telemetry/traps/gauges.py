"""Gauges that mean something else than they are called."""

import re

from controlplane.diagnosis.citing import says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.telemetry.readers import names_read, readers
from controlplane.diagnosis.signal import Signal
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, share_of, told_all, told_number
from controlplane.diagnosis.window import DoubtKind

_SINCE_LAST_SCRAPE = re.compile(r"llamacpp:(prompt|predicted)_tokens_seconds")
_FLAT = 0.02
"""Of itself: what was taken at the start changes by a buffer here and there."""
_LITTLE = 0.5
"""Of the KV cache."""
_KERNEL_ALWAYS = 0.9
_WORK_SELDOM = 0.4


def read_by_two(argument: Argument, now: Activity) -> Confidence | None:
    """llama.cpp's speeds are averages since anybody's last scrape: of two each gets a part."""
    reads = [each for each in names_read(now.window) if _SINCE_LAST_SCRAPE.search(each.name)]
    scrapers = told_number(now.window, r"scrap(ers?|ed by)|prometheus (servers|replicas)|pollers")
    num = number_of(scrapers)
    doubts = [
        doubt
        for doubt in now.window.doubts_of(DoubtKind.OUT_OF_RANGE, DoubtKind.STUCK)
        if _SINCE_LAST_SCRAPE.search(doubt.name)
    ]
    if not doubts and not (reads and num is not None and num > 1):
        return None
    if not reads and (num is None or num < 2):
        return None
    for read in reads:
        argument.says(read.said)
    argument.fact(scrapers)
    for doubt in doubts[:2]:
        argument.says(doubt.what)
    for signal in (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS):
        argument.series(now.window.find(signal), "the counter tells")
    return Confidence.CERTAIN if doubts else Confidence.LIKELY


def reserved_at_start(argument: Argument, now: Activity) -> Confidence | None:
    """Device memory, read as load: engines take their share once and keep it."""
    asked = [
        fact
        for fact in readers(now.window)
        if re.search(r"(gpu|vram|device|fb|framebuffer).{0,12}(mem|used)|DCGM_FI_DEV_FB", fact.raw)
    ]
    if not asked:
        return None
    used = told_all(
        now.window, r"(gpu|vram|smi|device|card).*(used|memory|mib|gib)", without="util"
    )
    values = [value for fact in used if (value := number_of(fact)) is not None]
    if len(values) < 2 or max(values) - min(values) > _FLAT * max(values):
        return None
    for fact in (*asked, *used):
        argument.fact(fact)
    argument.series(now.kv, "and this is the load")
    argument.series(now.running)
    argument.against("release.leak: it was taken at the start and does not grow")
    return Confidence.LIKELY


def busy_is_not_full(argument: Argument, now: Activity) -> Confidence | None:
    """A device counts as busy while any kernel runs on it, however small."""
    busy = told_number(now.window, r"gpu.*(util|busy)", without=r"mem")
    full = told_number(
        now.window, r"(sm|tensor|gr).*(active|occupancy|efficiency)|mfu|power.*(share|of|percent)"
    )
    asked = [fact for fact in readers(now.window) if re.search(r"gpu.?util|GPU_UTIL", fact.raw)]
    often, work = share_of(busy), share_of(full)
    if not asked or busy is None or full is None or often is None or work is None:
        return None
    if often < _KERNEL_ALWAYS or work > _WORK_SELDOM:
        return None
    for fact in asked:
        argument.fact(fact)
    argument.says(f"{says(busy)}, and {says(full)}: kernels run all the time, and little in them")
    argument.series(now.waiting)
    argument.series(now.kv)
    return Confidence.LIKELY


def aborts_that_are_not_counted(argument: Argument, now: Activity) -> Confidence | None:
    """Callers leave, and the engine's reason `abort` stays at zero."""
    aborted = [
        series
        for series in (
            *now.window.all_series(Signal.FINISHED, reason="abort"),
            *now.window.all_series(Signal.ABORTED),
        )
        if series.max == 0
    ]
    asked = [fact for fact in readers(now.window) if "abort" in fact.raw]
    left = told_number(now.window, r"disconnect|client (gone|left|abort|cancel)|cancell?ed")
    num = number_of(left)
    if not aborted or not asked or left is None or not num:
        return None
    for fact in (*asked, left):
        argument.fact(fact)
    argument.series(aborted[0], "this engine does not count them")
    return Confidence.LIKELY
