"""Nothing is wrong: work goes on, or honestly nothing is asked for, and no symptom is there."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.health import signs
from controlplane.diagnosis.rules.health.unexplained import unexplained
from controlplane.diagnosis.rules.health.work import (
    DECODED,
    has_served,
    idles,
    pays,
    reads_what_is_new,
    serves,
    works,
)
from controlplane.diagnosis.rules.pace.acceptance import fell
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.latency import is_quick, latencies
from controlplane.diagnosis.views.served import recovered_from, serves_since
from controlplane.diagnosis.views.symptoms import symptoms
from controlplane.diagnosis.views.told import told_all
from controlplane.diagnosis.window import Window

_ENOUGH = 3
"""Signs of health of which one is work or honest idleness, and one the queue."""
_LEAST_SECONDS = 5.0
_TAIL = 0.9
"""A percentile from there on is of many requests."""


def judge(window: Window) -> Verdict | None:
    """LIKELY with enough signs and no symptom; never CERTAIN, since what was not looked at may be
    ill."""
    now = activity_of(window)
    argument = Argument(window)
    started = signs.came_up(argument, window)
    if symptoms(now) or fell(window):
        return None
    is_working = (
        works(argument, now)
        or pays(argument, now)
        or reads_what_is_new(argument, window)
        or serves(argument, now)
        or has_served(argument, now)
    )
    is_idle = idles(argument, now)
    queue = signs.queue_is_fine(argument, now)
    over = _came_over_a_failure(argument, window)
    if not (started or is_idle or over) and not _is_seen_over_time(now):
        return None
    holds = signs.holds_what_it_took(argument, window)
    others = (
        holds,
        over,
        signs.keeps_its_pace(now),
        signs.agrees(argument, now),
        signs.throws_nobody_out(argument, now),
        signs.ends_well(argument, now),
        signs.in_time(argument, window),
        signs.as_before(argument, window),
        signs.reuses(argument, window),
        signs.meets_what_is_expected(argument, now),
    )
    number = sum(map(bool, (is_working or is_idle, queue, started, *others)))
    not_explained = unexplained(now)
    if not_explained:
        argument.against(f"told, and not explained: {'; '.join(not_explained[:4])}")
        argument.need("what made somebody look", "latency that users see, now and before")
        return argument.verdict(Confidence.POSSIBLE) if is_working or is_idle else None
    if ((is_working or is_idle) and queue and number >= _ENOUGH) or (started and number >= 2):
        detail = "busy" if is_working else "idle" if is_idle else "came up as usual"
        return argument.verdict(Confidence.LIKELY, detail=detail)
    if is_working and (holds or over) and number >= _ENOUGH:
        detail = "it tried again, and serves" if over else "it holds what it took"
        return argument.verdict(Confidence.LIKELY, detail=detail)
    if (is_working or is_idle) and queue:
        argument.need("requests in flight at the gateway", "preemptions", "errors and refusals")
        return argument.verdict(Confidence.POSSIBLE)
    return None


def _came_over_a_failure(argument: Argument, window: Window) -> bool:
    """It failed at something, tried another way itself, and serves since."""
    over = recovered_from(window)
    if over is None or not serves_since(window, over):
        return False
    argument.says(f"{over.line.strip()[:200]}: it tried again by itself")
    ready = window.last_event(LogKind.READY)
    argument.says("" if ready is None else ready.line.strip()[:200])
    return True


def _is_seen_over_time(now: Activity) -> bool:
    """One moment tells no course; a percentile is of many requests."""
    window = now.window
    known = [series for series in (now.running, now.waiting, now.decode) if series is not None]
    if any(len(each.readings) > 1 and each.span_seconds >= _LEAST_SECONDS for each in known):
        return True
    if any((fact.quantile or 0.0) >= _TAIL and is_quick(fact) for fact in latencies(window)):
        return True
    objectives = told_all(window, r"\b(objective|slo|sla|target)\b")
    if objectives and any(fact.quantile is not None for fact in window.facts):
        return True
    moments = {fact.at for fact in window.facts}
    return len(moments) > 1 or bool(window.lines_with(DECODED)) or _progresses(window)


def _progresses(window: Window) -> bool:
    """A log that follows one request over some seconds."""
    moments = [event.at for event in window.events if event.at is not None]
    return len(moments) > 2 and max(moments) - min(moments) >= _LEAST_SECONDS


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
