"""Gauges that mean something else than they are called."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.readers import Read, names_read, readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all, told_number
from controlplane.diagnosis.window import DoubtKind
from dataplane.engine_metrics.signal import Signal

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
    are_several = (number_of(scrapers) or 0.0) > 1
    idle = _zero_while_busy(now)
    seen = told_all(now.window, r"tokens?( \w+)* (received|delivered|at client)|received tokens")
    if idle is not None and (reads or seen or are_several):
        argument.says(idle)
        for read in reads:
            argument.says(read.said)
        for fact in seen:
            argument.fact(fact)
        argument.fact(scrapers)
        argument.series(now.window.find(Signal.GENERATION_TOKENS), "the counter tells")
        argument.series(now.running)
        argument.against("engine.hung and telemetry.stale: tokens are counted")
        return Confidence.CERTAIN
    if not reads and not are_several:
        return None
    return _by_its_doubts(argument, now, reads, scrapers, are_several=are_several)


def _by_its_doubts(
    argument: Argument,
    now: Activity,
    reads: list[Read],
    scrapers: Fact | None,
    *,
    are_several: bool,
) -> Confidence | None:
    """It is out of range or stands still, or several are known to read it."""
    doubts = [
        doubt
        for doubt in now.window.doubts_of(DoubtKind.OUT_OF_RANGE, DoubtKind.STUCK)
        if _SINCE_LAST_SCRAPE.search(doubt.name)
    ]
    if not doubts and not (reads and are_several):
        return None
    for read in reads:
        argument.says(read.said)
    argument.fact(scrapers)
    for doubt in doubts[:2]:
        argument.says(doubt.what)
    for signal in (Signal.GENERATION_TOKENS, Signal.PROMPT_TOKENS):
        argument.series(now.window.find(signal), "the counter tells")
    return Confidence.CERTAIN if doubts else Confidence.LIKELY


def _zero_while_busy(now: Activity) -> str | None:
    """The speed is 0 at each scrape, and tokens are counted."""
    tokens = now.window.find(Signal.GENERATION_TOKENS)
    for series in now.window.all_series(Signal.GENERATION_RATE):
        if not _SINCE_LAST_SCRAPE.search(series.origin.name) or series.max > 0:
            continue
        if tokens is not None and tokens.increase and len(series.readings) > 1:
            return f"{series.origin.name} 0 at each of {len(series.readings)} scrapes"
    return None


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
    if _is_the_setting(argument, now):
        for fact in asked:
            argument.fact(fact)
        argument.series(now.kv, "and this is the load")
        argument.against("release.leak: it is what was asked for at the start")
        return Confidence.LIKELY
    values = [value for fact in used if (value := number_of(fact)) is not None]
    if len(values) < 2 or max(values) - min(values) > _FLAT * max(values):
        return None
    for fact in (*asked, *used):
        argument.fact(fact)
    argument.series(now.kv, "and this is the load")
    argument.series(now.running)
    argument.against("release.leak: it was taken at the start and does not grow")
    return Confidence.LIKELY


def _is_the_setting(argument: Argument, now: Activity) -> bool:
    """In use is just what the engine was told to take, and the cache in it is nearly empty."""
    setting = told_number(now.window, r"(gpu )?mem\w* util\w*|mem\w* fraction")
    used = told_number(
        now.window,
        r"(gpu|vram|smi|device).*mem\w*.*(percent|used|share)|mem\w* percent",
        without="util",
    )
    wanted, share = share_of(setting), share_of(used)
    if setting is None or used is None or wanted is None or share is None or now.kv is None:
        return False
    if used is setting or abs(wanted - share) > _AS_SET or now.kv.last.value > _LITTLE:
        return False
    argument.says(f"{says(used)}, as {says(setting)} asks for")
    return True


_AS_SET = 0.04


def busy_is_not_full(argument: Argument, now: Activity) -> Confidence | None:
    """A device counts as busy while any kernel runs on it, however small."""
    busy = told_number(now.window, r"gpu.*(util|busy)", without=r"mem")
    full = told_number(
        now.window, r"(sm|tensor|gr).*(active|occupancy|efficiency)|mfu|power.*(share|of|percent)"
    )
    asked = [
        fact
        for fact in readers(now.window)
        if re.search(r"gpu.?util|nvidia-smi|utili[sz]ation", fact.raw, re.IGNORECASE)
    ]
    gauge = now.window.find(Signal.DEVICE_USAGE)
    often, work = share_of(busy), share_of(full)
    if often is None and gauge is not None:
        often = gauge.last.value
    if not asked or full is None or often is None or work is None:
        return None
    if often < _KERNEL_ALWAYS or work > _WORK_SELDOM:
        return None
    for fact in asked:
        argument.fact(fact)
    argument.says(f"{says(full)}: kernels run all the time, and little in them")
    argument.fact(busy)
    argument.series(gauge)
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


def never_caught_running(argument: Argument, now: Activity) -> Confidence | None:
    """A gauge is a snapshot: short requests come and go between two scrapes."""
    running, histogram = now.window.find(Signal.RUNNING), now.window.find_histogram(Signal.E2E)
    asked = _says_that_none_run(now)
    if running is None or running.max > 0 or len(running.readings) < 2 or not asked:
        return None
    finished = now.window.find(Signal.FINISHED)
    count = None if finished is None else finished.increase
    at_once = None
    if histogram is not None and len(histogram.readings) > 1:
        observed = histogram.observed
        seconds = histogram.readings[-1].at - histogram.readings[0].at
        count = max(count or 0.0, observed.count)
        at_once = observed.sum / seconds if seconds > 0 else None
        first, last = histogram.readings[0].count, histogram.readings[-1].count
        argument.says(f"{histogram.origin.name}: {number(first)} -> {number(last)} finished")
    if not count or count < _SOME or (at_once is not None and at_once > _SELDOM):
        return None
    argument.series(running, "at each scrape")
    argument.series(finished, "and they finish")
    if at_once is not None:
        argument.says(f"on average {number(at_once)} run at once: a scrape hardly ever meets one")
    for fact in told_all(now.window, r"requests|latency|scrape|errors?"):
        argument.fact(fact)
    argument.against("telemetry.stale and telemetry.missing: the counters move")
    argument.against("engine.hung: requests finish")
    return Confidence.CERTAIN if at_once is not None else Confidence.LIKELY


def _says_that_none_run(now: Activity) -> bool:
    """Somebody reads the gauge, or holds requests that were counted elsewhere against what is
    scraped: a scraper alone wonders at nothing."""
    if any(_RUNNING.search(f"{plain(fact.key)} {fact.raw}") for fact in readers(now.window)):
        return True
    every = told_number(
        now.window, r"\b(scrape|poll|snapshot|sample)\b.*\b(interval|every|period)\b"
    )
    sent = told_number(now.window, r"\brequests?\b|\b(rps|qps|arrivals?)\b", without=r"scrape|max")
    took = told_number(now.window, r"latency|duration|e2e|service time")
    return not any(fact is None or fact.is_observed for fact in (every, sent, took))


_RUNNING = re.compile(
    r"num_requests_running|num_running_reqs|requests_processing|\b(running|busy|active)\b"
)
_SOME = 10.0
_SELDOM = 0.5
_TRANSFERS = re.compile(
    r"Num successful transfers=(\d+), Avg xfer time \(ms\)=([\d.]+).*?Avg MB per transfer=([\d.]+)"
    r".*?Throughput \(MB/s\)=([\d.]+)"
)
_STATISTICS_SECONDS = 10.0
"""Between two statistics lines of vLLM, where nobody says otherwise."""
_OVERLAP = 2.0
_AS_MUCH = 0.2
_MEGABYTES = (125.0, 0.125, 1.0, 1000.0, 1e-6)
"""Gbit/s, Mbit/s, MB/s, GB/s and bytes a second."""


def one_transfer_is_not_the_wire(argument: Argument, now: Activity) -> Confidence | None:
    """vLLM's logged throughput divides by the sum of durations that overlap."""
    found = next(
        (match for line in reversed(now.window.lines) if (match := _TRANSFERS.search(line))), None
    )
    if found is None:
        return None
    num, milliseconds, size, logged = (float(group) for group in found.groups())
    told = told_number(now.window, r"interval")
    seconds = number_of(told) or _STATISTICS_SECONDS
    whole = num * size / seconds
    wire = told_number(now.window, r"\b(nic|wire|link|rdma|port|rx|tx)\b.*(bit|byte|mb|gb|per s)")
    rate = number_of(wire)
    if whole < _OVERLAP * logged or rate is None:
        return None
    if not any(abs(rate * factor - whole) <= _AS_MUCH * whole for factor in _MEGABYTES):
        return None
    argument.says(
        f"{number(num)} x {number(size)} MB in {number(seconds)} s = {number(whole)} MB/s on the "
        f"wire; the logged {found[4]} MB/s is {found[3]} MB / {number(milliseconds / 1000)} s, of "
        "one transfer"
    )
    for fact in told_all(now.window, r"nic|wire|link|rdma|in ?flight|overlap|ttft|itl|objective"):
        argument.fact(fact)
    argument.series(now.waiting)
    argument.series(now.running)
    argument.against("transfer.bound: transfers overlap, and the wire carries far more")
    return Confidence.CERTAIN
