"""Nothing is wrong, and enough was seen to say so: work in progress or honest idleness, a queue
that is empty or empties, and no symptom.

It stands last: whatever else is likely wins, and where something that was seen is unexplained it
says nothing, or what more would have to be known.
"""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.contrast import contrasts
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.draining import arrivals_of
from controlplane.diagnosis.views.preempting import preempting
from controlplane.diagnosis.views.prefix import hit_rates
from controlplane.diagnosis.views.symptoms import symptoms
from controlplane.diagnosis.views.told import number_of, says_no, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_ENOUGH = 3
"""Signs of health of which one is work or honest idleness, and one the queue."""
_AS_USUAL = 1.15
_LEAST_SECONDS = 5.0
_PACE_SECONDS = 20.0
_IDLE_SECONDS = 10.0
_ABOUT = 0.02
_HELD_IDLE = 0.02
_FASTER = 1.1
_DECODED = r"decoded\s.*speed:\s*([\d.]+)"
_WITHOUT = r"\b(without|plain|baseline|no|off|vanilla|before)\b"
_BUSY_SHARE = 0.85
_SUSPICIOUS = (
    r"\b(cpu|browser|generator|bench\w*|script|sockets?|threads?|autoscal\w*|dashboard|alert\w*"
    r"|panel"
    r"|clocks?|offset|skew|drift|drafts?|fp8|awq|gptq|int[48]|quant\w*|transfer\w*|rdma|nic|network"
    r"|link|throttl\w*|cold start|download|disk|paging|swap|tenants?|api key|router|score|adapters?"
    r"|client|clients|sender|caller|callers|without|before|old|other|expected|same load|gap)\b"
)
_HARMLESS = r"start to ready|usual|previous|max |limit|in ?flight|card|weights"


def judge(window: Window) -> Verdict | None:
    """LIKELY with enough signs and no symptom; never CERTAIN, since what was not looked at may be
    ill."""
    now = activity_of(window)
    argument = Argument(window)
    started = _came_up(argument, window)
    if symptoms(now):
        return None
    works = _works(argument, now) or _pays(argument, now) or _reads_what_is_new(argument, window)
    idles = _idles(argument, now)
    queue = _queue_is_fine(argument, now)
    if not (started or idles) and not _is_seen_over_time(now):
        return None
    others = (
        _keeps_its_pace(now),
        _agrees(argument, now),
        _throws_nobody_out(argument, now),
        _ends_well(argument, now),
        _in_time(argument, window),
        _as_before(argument, window),
        _holds_what_it_took(argument, window),
        _reuses(argument, window),
    )
    signs = sum(map(bool, (works or idles, queue, started, *others)))
    unexplained = _unexplained(window)
    if unexplained:
        argument.against(f"told, and not explained: {'; '.join(unexplained[:4])}")
        argument.need("what made somebody look", "latency that users see, now and before")
        return argument.verdict(Confidence.POSSIBLE) if works or idles else None
    if ((works or idles) and queue and signs >= _ENOUGH) or (started and signs >= 2):
        detail = "busy" if works else "idle" if idles else "came up as usual"
        return argument.verdict(Confidence.LIKELY, detail=detail)
    if (works or idles) and queue:
        argument.need("requests in flight at the gateway", "preemptions", "errors and refusals")
        return argument.verdict(Confidence.POSSIBLE)
    return None


def _is_seen_over_time(now: Activity) -> bool:
    """One moment tells no course."""
    window = now.window
    known = [series for series in (now.running, now.waiting, now.decode) if series is not None]
    if any(len(each.readings) > 1 and each.span_seconds >= _LEAST_SECONDS for each in known):
        return True
    objectives = told_all(window, r"\b(objective|slo|sla|target)\b")
    if objectives and any(fact.quantile is not None for fact in window.facts):
        return True
    moments = {fact.at for fact in window.facts}
    return len(moments) > 1 or bool(window.lines_with(_DECODED)) or _progresses(window)


def _progresses(window: Window) -> bool:
    """A log that follows one request over some seconds."""
    moments = [event.at for event in window.events if event.at is not None]
    return len(moments) > 2 and max(moments) - min(moments) >= _LEAST_SECONDS


def _keeps_its_pace(now: Activity) -> bool:
    """Read several times over half a minute, and no symptom was in it."""
    decode = now.decode
    return decode is not None and len(decode.readings) > 1 and decode.span_seconds >= _PACE_SECONDS


def _unexplained(window: Window) -> list[str]:
    """Figures of which this rule cannot say that they are good, and which nobody gathers without a
    reason."""
    found = []
    as_before = {
        fact.key
        for contrast in contrasts(window, ".")
        if 1 / _AS_USUAL <= contrast.factor <= _AS_USUAL
        for fact in (contrast.base, contrast.other)
    }
    for fact in told_all(window, _SUSPICIOUS, without=_HARMLESS):
        if fact.key in as_before:
            continue
        value = number_of(fact)
        is_busy = value is not None and value >= _BUSY_SHARE
        if says_no(fact) or value == 0 or (re.search(r"cpu|util", fact.key) and not is_busy):
            continue
        found.append(says(fact))
    return found


def _works(argument: Argument, now: Activity) -> bool:
    """Something runs, and tokens or answers come."""
    running, decode = now.running, now.decode
    ran = running is not None and max(late(running), running.last.value) > 0
    if not ran or not now.moves(now.window.start, now.window.end):
        return False
    argument.series(running)
    argument.series(decode, "work goes on")
    if running is not None and decode is not None and running.last.value > 0:
        _cite_speed(argument, now)
    for signal in (Signal.GENERATION_TOKENS, Signal.FINISHED):
        argument.series(now.window.find(signal))
    return True


def _reads_what_is_new(argument: Argument, window: Window) -> bool:
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


def _pays(argument: Argument, now: Activity) -> bool:
    """What was bought for speed gives it: faster with it than without."""
    speeds = [
        float(found[1])
        for line in now.window.lines_with(_DECODED)
        if (found := re.search(_DECODED, line, re.IGNORECASE)) is not None
    ]
    plain_speed = told_number(now.window, _WITHOUT, without=r"prompt|prefill|ttft")
    value = number_of(plain_speed)
    if not speeds or plain_speed is None or not value or speeds[-1] < _FASTER * value:
        return False
    argument.fact(plain_speed, f"{speeds[-1]:g} tokens/s with it")
    for signal in (Signal.DRAFT_TOKENS, Signal.ACCEPTED_TOKENS, Signal.ACCEPTANCE_RATE):
        argument.series(now.window.find(signal))
    return True


def _cite_speed(argument: Argument, now: Activity) -> None:
    """What each request gets: it rises as the batch empties."""
    running, decode = now.running, now.decode
    if running is None or decode is None:
        return
    first = running.at(decode.first.at)
    last = running.at(decode.last.at)
    if first is None or last is None or not first.value or not last.value:
        return
    before, after = decode.first.value / first.value, decode.last.value / last.value
    argument.says(
        f"each running gets {number(round(before, 1))} -> {number(round(after, 1))} tokens/s"
    )


def _idles(argument: Argument, now: Activity) -> bool:
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
    if waits or counted is not False or running.span_seconds < _IDLE_SECONDS:
        return False
    if kv is not None and kv.max > _HELD_IDLE:
        return False
    if now.in_flight is not None and now.in_flight.last.value > 0:
        return False
    argument.series(running, "nothing runs, and no counter moves")
    return True


def _queue_is_fine(argument: Argument, now: Activity) -> bool:
    backlog = now.backlog
    nothing_runs = now.running is not None and now.running.last.value == 0
    if backlog is None or (nothing_runs and backlog.last.value > 0):
        return False
    argument.series(backlog, "nothing waits" if backlog.max == 0 else "what waits is let in")
    queue = now.window.find_histogram(Signal.QUEUE_TIME)
    mean = None if queue is None else queue.mean
    if queue is not None and mean is not None:
        argument.histogram(
            queue, mean, f"{queue.origin.name}: {mean:.2g} s in the queue on average"
        )
    return True


def _agrees(argument: Argument, now: Activity) -> bool:
    """The gateway counts as many as the engine."""
    inside, running = now.in_flight, now.running
    if inside is None or running is None:
        return False
    argument.series(inside, "as many as the engine says")
    return True


def _throws_nobody_out(argument: Argument, now: Activity) -> bool:
    thrown = preempting(now)
    if thrown is not None:
        argument.says(f"hardly anybody is thrown out ({thrown.says})")
    argument.series(now.kv)
    if now.kv is not None and now.is_full:
        argument.against("a full cache is what it is for, while nobody is thrown out or waits")
    return thrown is not None or bool(now.has_room)


def _ends_well(argument: Argument, now: Activity) -> bool:
    """Somebody counts what goes wrong, and it is nothing."""
    found = False
    for signal in (Signal.FAILED, Signal.REJECTED, Signal.ABORTED):
        series = now.window.find(signal)
        if series is not None and series.increase is not None:
            argument.series(series)
            found = True
    for fact in told_all(
        now.window, r"\b(errors?|failures?|rejected|refused|restarts?|retractions)\b"
    ):
        if says_no(fact) or number_of(fact) == 0:
            argument.fact(fact)
            found = True
    return found or now.finished is not None


def _as_before(argument: Argument, window: Window) -> bool:
    """What was measured before and now is the same."""
    found = False
    for contrast in contrasts(
        window, r"\b(ttft|tpot|itl|latency|e2e|arrivals|tok\w*|throughput|rps)\b"
    ):
        if 1 / _AS_USUAL <= contrast.factor <= _AS_USUAL:
            argument.says(f"{contrast.says}: as before")
            found = True
    return found


def _in_time(argument: Argument, window: Window) -> bool:
    """Latencies that somebody told, none of which is a symptom."""
    facts = told_all(
        window, r"\b(ttft|tpot|itl|latency|e2e)\b|start to ready", without=r"before|old|other|max"
    )
    for fact in facts[-4:]:
        argument.fact(fact)
    return bool(facts)


def _holds_what_it_took(argument: Argument, window: Window) -> bool:
    """Memory that was taken at the start, and has not grown since."""
    for contrast in contrasts(
        window, r"(gpu|host|vram|smi|rss|memory)\b.*\b(used|in use|mib|gib)\b"
    ):
        if contrast.base.key == contrast.other.key and contrast.factor <= _AS_USUAL:
            argument.says(f"{contrast.says}: it does not grow")
            return True
    used = told_number(window, r"(smi|vram|gpu( memory)?) used")
    total = told_number(window, r"(card|gpu|vram).*\b(total|size|mib|gib)\b", without=r"used|free")
    share = told_number(window, r"gpu memory utili[sz]ation|mem fraction static")
    held, whole, wanted = number_of(used), number_of(total), number_of(share)
    if used is None or total is None or not held or not whole or not wanted:
        return False
    if not 0.9 <= held / (whole * wanted) <= _AS_USUAL:
        return False
    argument.fact(
        used, f"{number(wanted)} of {total.raw}, taken at the start for weights and cache"
    )
    return True


def _reuses(argument: Argument, window: Window) -> bool:
    if any(event.fields.get("from", 0.0) > 0 for event in window.events_of(LogKind.CACHE_CUT)):
        return True
    rates = hit_rates(window)
    if rates is None or rates.last.value <= 0:
        return False
    argument.series(rates)
    return rates.last.value >= rates.first.value


def _came_up(argument: Argument, window: Window) -> bool:
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
        if 1 / _AS_USUAL <= factor <= _AS_USUAL:
            argument.says(f"{contrast.says}: as usual")
            argument.says(ready.line.strip())
            return True
    return False


HEALTHY = Rule(
    id="healthy",
    mechanism=Mechanism.HEALTHY,
    judge=judge,
    needs=(
        "requests running and waiting over time",
        "generated tokens over time",
        "requests in flight at the gateway, preemptions or errors",
    ),
    told_apart="From every fault by the absence of symptoms together with signs that were looked "
    "for; from missing telemetry by figures that move.",
    remedy="None is needed.",
    hides="What nobody measures: ask for the latency that users see before closing the ticket.",
)
