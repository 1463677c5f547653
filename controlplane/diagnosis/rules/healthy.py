"""Nothing is wrong: work goes on, or honestly nothing is asked for, and no symptom is there."""

from dataclasses import dataclass

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.health import signs
from controlplane.diagnosis.rules.health.rest import came_to_rest
from controlplane.diagnosis.rules.health.single_requests import (
    answers_keep_their_pace,
    one_after_another,
    prompts_take_their_length,
)
from controlplane.diagnosis.rules.health.starts import came_up_in_time
from controlplane.diagnosis.rules.health.unexplained import unexplained
from controlplane.diagnosis.rules.health.whole_blocks import misses_no_whole_block
from controlplane.diagnosis.rules.health.work import (
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
from controlplane.diagnosis.window import DoubtKind, Window
from controlplane.diagnosis.words.latency import OBJECTIVE
from controlplane.diagnosis.words.lines import DECODE_SPEED
from dataplane.engine_metrics.signal import Signal

_ENOUGH = 3
"""Signs: that it works or honestly idles, that its queue is let in, and one thing more that goes
wrong first where engines are ill (memory, preemptions, endings, latency, the pace). Two alone are
what an engine shows a moment before it fails; each was looked for, and not just not seen."""
_LEAST_SECONDS = 5.0
"""Some hundred steps of an engine, and two scrapes of whoever scrapes often: a course of less is
a moment."""
_TAIL = 0.9
"""A percentile from there on is of many requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signs:
    """What was looked for, and found."""

    started: bool
    is_working: bool
    is_idle: bool
    rests: bool
    """It worked, ended what it took, and is idle now."""
    queue: bool
    holds: bool
    over: bool
    """It came over a failure by itself."""
    repeats: bool
    """A prompt sent again found every whole block: what looks like a poor hit rate is all there is
    to find."""
    others: int

    @property
    def is_alive(self) -> bool:
        """Something is done, or nothing is asked for."""
        return self.is_working or self.is_idle

    @property
    def number(self) -> int:
        """Of all signs."""
        own = (self.is_alive, self.queue, self.started, self.holds, self.over)
        return sum(own) + self.others


def judge(window: Window) -> Verdict | None:
    """LIKELY with enough signs and no symptom; never CERTAIN, since what was not looked at may be
    ill."""
    now = activity_of(window)
    if symptoms(now) or fell(window):
        return None
    return _by_signs(now)


def _by_signs(now: Activity) -> Verdict | None:
    """Enough of them, seen over a time, and nothing told that they do not explain."""
    argument, window = Argument(now.window), now.window
    seen = _look(argument, now)
    if not (seen.started or seen.is_idle or seen.over) and not _is_seen_over_time(now, seen):
        return None
    unread = window.doubts_of(DoubtKind.SEVERAL_ENGINES)
    if unread:
        argument.against(f"one of several engines was looked at: {unread[0].what}")
        argument.need("the page of each engine, at its own address")
        return argument.verdict(Confidence.POSSIBLE) if seen.is_alive else None
    not_explained = unexplained(now)
    if not_explained:
        argument.against(f"told, and not explained: {'; '.join(not_explained[:4])}")
        argument.need("what made somebody look", "latency that users see, now and before")
        return argument.verdict(Confidence.POSSIBLE) if seen.is_alive else None
    detail = _what_is_well(seen)
    if detail is not None:
        return argument.verdict(Confidence.LIKELY, detail=detail)
    if seen.is_alive and (seen.queue or seen.repeats):
        argument.need(*_NEEDS_OF_SIGNS.get(_engine_of(window), _NEEDS))
        return argument.verdict(Confidence.POSSIBLE)
    return None


_NEEDS = ("requests in flight at the gateway", "preemptions", "errors and refusals")
_NEEDS_OF_SIGNS = {"llama.cpp": ("requests in flight at the gateway", "errors and refusals")}
"""Of engines that have fewer: each slot has its own context, from which nobody is thrown out."""


def _engine_of(window: Window) -> str:
    return "" if window.engine is None else window.engine.name


def _look(argument: Argument, now: Activity) -> _Signs:
    window = now.window
    started = signs.came_up(argument, window) or came_up_in_time(argument, window)
    reads = prompts_take_their_length(argument, now)
    answers = answers_keep_their_pace(argument, window)
    repeats = misses_no_whole_block(argument, now)
    is_working = _is_at_work(argument, now) or reads or answers or repeats
    rests = came_to_rest(argument, now)
    is_idle = idles(argument, now) or rests
    queue = signs.queue_is_fine(argument, now) or one_after_another(argument, now)
    over = _came_over_a_failure(argument, window)
    holds = signs.holds_what_it_took(argument, window)
    holds = signs.keeps_within_its_limit(argument, window) or holds
    keeps_pace = signs.keeps_its_pace(now) or answers or signs.steps_keep_their_pace(argument, now)
    ready = is_idle and signs.stands_ready(argument, now)
    return _Signs(
        started=started,
        is_working=is_working,
        is_idle=is_idle,
        rests=rests,
        queue=queue,
        holds=holds,
        over=over,
        repeats=repeats,
        others=keeps_pace + reads + _others(argument, now) + ready + rests,
    )


def _is_at_work(argument: Argument, now: Activity) -> bool:
    """By what it does, or what came of it."""
    return (
        works(argument, now)
        or pays(argument, now)
        or reads_what_is_new(argument, now.window)
        or serves(argument, now)
        or has_served(argument, now)
    )


def _others(argument: Argument, now: Activity) -> int:
    """How many signs there are of what goes wrong first: whoever works or idles may have them."""
    window = now.window
    found = (
        signs.agrees(argument, now),
        signs.throws_nobody_out(argument, now),
        signs.ends_well(argument, now),
        signs.in_time(argument, window),
        signs.as_before(argument, window),
        signs.reuses(argument, window),
        signs.meets_what_is_expected(argument, now),
    )
    return sum(found)


def _what_is_well(seen: _Signs) -> str | None:
    """None where the signs are too few."""
    if seen.repeats and seen.number >= _ENOUGH:
        return "every whole block is found"
    if (seen.is_alive and seen.queue and seen.number >= _ENOUGH) or (
        seen.started and seen.number >= 2
    ):
        if seen.is_working and not seen.rests:
            return "busy"
        return "idle" if seen.is_idle else "came up as usual"
    if seen.is_working and (seen.holds or seen.over) and seen.number >= _ENOUGH:
        return "it tried again, and serves" if seen.over else "it holds what it took"
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


def _is_seen_over_time(now: Activity, seen: _Signs) -> bool:
    """One moment tells no course; a percentile is of many requests."""
    window = now.window
    looked_up = window.find(Signal.PREFIX_QUERIES) if seen.repeats else None
    courses = (now.running, now.waiting, now.decode, looked_up)
    known = [series for series in courses if series is not None]
    if any(len(each.readings) > 1 and each.span_seconds >= _LEAST_SECONDS for each in known):
        return True
    if any((fact.quantile or 0.0) >= _TAIL and is_quick(fact) for fact in latencies(window)):
        return True
    objectives = told_all(window, OBJECTIVE)
    if objectives and any(fact.quantile is not None for fact in window.facts):
        return True
    moments = {fact.at for fact in window.facts}
    return len(moments) > 1 or bool(window.lines_with(DECODE_SPEED)) or _progresses(window)


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
