"""telemetry.stale: what is exported stands still, to the digit, while the truth is another."""

import re

from controlplane.diagnosis.citing import moved, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.rules.telemetry.frozen_part import one_of_several, one_that_is_gone
from controlplane.diagnosis.rules.telemetry.routers_count import counted_by_the_router_alone
from controlplane.diagnosis.rules.telemetry.shown_idle import idle_in_vain, zero_for_a_while
from controlplane.diagnosis.rules.telemetry.standing import LEAST_SECONDS, cite_beside, standing
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.moving import WORK, moves_since
from controlplane.diagnosis.views.told import number_of, told, told_all, told_number
from controlplane.diagnosis.views.truth import Truth, truth_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal, Unit

_FORGOTTEN_SECONDS = 300.0
"""A rate of the last batch may stand for a pause between requests."""
_OLD_SECONDS = 60.0
"""Four scrapes at the usual interval of 15 s were missed."""
_FULL_SHARE = 0.95
"""Of the blocks: where none is left, each that is freed is taken at once."""
_MUCH_TOKENS = 1000.0
"""Counted while a share of blocks stays to the digit: some sequence must have taken a block."""
_RATES = {
    Signal.GENERATION_RATE: Signal.GENERATION_TOKENS,
    Signal.PROMPT_RATE: Signal.PROMPT_TOKENS,
}


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    truth = truth_of(now)
    for find in (
        _busy_in_vain,
        one_of_several,
        one_that_is_gone,
        counted_by_the_router_alone,
        _rate_of_nothing,
        idle_in_vain,
        zero_for_a_while,
        _stuck_share,
        _too_old,
    ):
        argument = Argument(window)
        confidence = find(argument, now, truth)
        if confidence is not None:
            return argument.verdict(confidence)
    return None


def _busy_in_vain(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Gauges say that there is work, no token comes, and nobody waits or a probe is answered."""
    still = [series for series in standing(now.window) if series.last.value > 0]
    is_busy = any(series.signal in (Signal.RUNNING, Signal.WAITING) for series in still)
    if not is_busy or truth.is_asleep or now.window.events_of(LogKind.NO_PROGRESS):
        return None
    if truth.is_answered is False or truth.is_wanted:
        return None
    start = max(series.first.at for series in still)
    if moves_since(now, start):
        return None
    for series in still:
        argument.says(f"{stands(series)}: to the digit")
    for signal in _RATES:
        rate = now.window.find(signal)
        if rate is not None and rate.is_constant and rate.last.value > 0:
            argument.says(f"{stands(rate)}: to the digit")
    _cite_counters(argument, now)
    for sentence in truth.says:
        argument.says(sentence)
    cite_beside(argument, now.window)
    argument.against("queue.blocked and queue.overload: nobody waits at the gateway")
    argument.against("release.leak: what is held would be computed, or stay after a step")
    if truth.is_answered:
        argument.against("engine.hung: a probe is answered")
        return Confidence.CERTAIN if truth.is_wanted is False else Confidence.LIKELY
    if truth.is_wanted is False:
        argument.against("engine.hung: nobody waits in vain; a probe would prove it")
        argument.need("a one-token probe")
        return Confidence.LIKELY
    argument.need(*truth.needs)
    return Confidence.POSSIBLE


def _cite_counters(argument: Argument, now: Activity) -> None:
    for signal in WORK:
        series = now.window.find(signal)
        if series is not None and len(series.readings) > 1:
            argument.says(stands(series) if series.is_constant else moved(series))
    if now.window.find(Signal.GENERATION_TOKENS) is None:
        argument.series(now.decode, "no token comes")


def _rate_of_nothing(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A rate that keeps its last value: nothing runs, or its own counter does not move."""
    for signal, counter in _RATES.items():
        rate = now.window.find(signal)
        if rate is None or not rate.is_constant or rate.last.value <= 0:
            continue
        if rate.span_seconds < _FORGOTTEN_SECONDS:
            continue
        counted = now.window.find(counter)
        stands_still = counted is not None and counted.is_constant
        idle = now.running is not None and now.running.max == 0
        if not (stands_still or idle):
            continue
        argument.says(f"{stands(rate)}: to the digit")
        _cite_counters(argument, now)
        argument.series(now.running, "nothing runs")
        for sentence in truth.says:
            argument.says(sentence)
        cite_beside(argument, now.window)
        argument.against("release.leak: what is computed would be counted")
        return Confidence.CERTAIN if stands_still and idle else Confidence.LIKELY
    return None


def _stuck_share(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A share of blocks that stays while tokens come by the thousand."""
    tokens = now.window.find(Signal.GENERATION_TOKENS)
    kv = now.window.find(Signal.KV_USAGE)
    if tokens is None or kv is None or not kv.is_constant or kv.span_seconds < LEAST_SECONDS:
        return None
    if not 0 < kv.last.value < _FULL_SHARE:
        return None
    grown = tokens.between(kv.first.at, kv.last.at)
    increase = 0.0 if grown is None else grown.increase or 0.0
    if len(kv.readings) < _MANY_READINGS or increase < _MUCH_TOKENS:
        return None
    argument.says(f"{stands(kv)}: to the digit, in {len(kv.readings)} readings")
    argument.says(f"{moved(tokens)}: blocks are taken meanwhile")
    argument.against("a batch at its limit keeps its number of requests, and not its blocks")
    return Confidence.LIKELY


_MANY_READINGS = 10
"""Fewer may fall between two blocks, or on a closed loop of equal requests."""
_AGE = (
    r"(scrape|sample|metrics?|telemetry|exporter|snapshot|reading|signal|gauge|load report)"
    r".*\b(age|old|ago|since|stale|behind|lag)|\b(age|staleness)\b.*(metric|sample|scrape|signal)"
    r"|\b(last|newest|latest) (good |successful )?(sample|scrape|snapshot|reading|load report)\b"
)


def _too_old(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """The newest of the engine's values is from long ago, and others are newer."""
    fact = told_number(now.window, _AGE, without=r"limit|max|allowed|threshold|interval")
    age = _age_of(fact)
    if fact is not None and age is not None and age >= _OLD_SECONDS:
        argument.fact(fact)
        source = told(now.window, r"scrape (error|status|result)|\bup\b|target (state|health)")
        argument.fact(source)
        _cite_counters(argument, now)
        for sentence in truth.says:
            argument.says(sentence)
        argument.need("a scrape of the engine itself, by hand")
        return Confidence.LIKELY
    failed = [fact for fact in told_all(now.window, r"scrape|target|\bup\b") if _is_down(fact.raw)]
    newest = max((series.last.at for series in now.window.series), default=None)
    if failed and newest is not None and now.window.end - newest >= _OLD_SECONDS:
        argument.says(f"the newest value of the engine is {now.window.end - newest:g} s old")
        argument.fact(failed[-1])
        return Confidence.LIKELY
    return None


def _age_of(fact: Fact | None) -> float | None:
    """In seconds; `22 min ago` is one, too. A time of day is none."""
    if fact is None or fact.unit not in (Unit.SECONDS, None):
        return None
    written = durations_in(fact.raw) if fact.value is None else ()
    return sum(seconds for _, seconds in written) if written else number_of(fact)


def _is_down(raw: str) -> bool:
    return bool(re.search(r"\b(down|fail|error|timeout|timed out|refused|0)\b", raw.lower()))


STALE = Rule(
    id="telemetry-stale",
    mechanism=Mechanism.TELEMETRY_STALE,
    judge=_judge,
    needs=(
        "gauges over time",
        "token counters over time",
        "requests in flight at the gateway or a one-token probe",
    ),
    told_apart=(
        "From engine.hung and queue.blocked by nobody waiting and a probe that is answered; from "
        "release.leak by tokens and steps that do not move; from a closed loop, which keeps its "
        "batch and moves its counters."
    ),
    remedy=(
        "Do not route or scale by these gauges until a step has run: send a probe so that they are "
        "set again, and trust counters and the gateway's own count."
    ),
    hides=(
        "A probe sets the gauges and takes the proof away; a restart does the same and also hides "
        "why no step ran."
    ),
    explains=frozenset(
        {
            Mechanism.QUEUE_BLOCKED,
            Mechanism.QUEUE_OVERLOAD,
            Mechanism.ROUTING_SKEW,
            Mechanism.BATCH_UNDERFILLED,
        }
    ),
)
