"""telemetry.stale: what is exported stands still, to the digit, while the truth is another."""

import re

from controlplane.diagnosis.citing import course, moved, stands
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.log_event import LogKind
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.reading import Series, SourceKind
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.signal import Signal, SignalKind, Unit
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity, activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.moving import WORK, moves_since
from controlplane.diagnosis.views.told import number_of, told, told_all, told_number
from controlplane.diagnosis.views.truth import Truth, truth_of
from controlplane.diagnosis.window import Window

_LEAST_SECONDS = 20.0
"""Two statistics lines of a log, or a dozen scrapes."""
_FORGOTTEN_SECONDS = 300.0
"""A rate of the last batch may stand for a pause between requests."""
_OLD_SECONDS = 60.0
"""Four scrapes at the usual interval of 15 s were missed."""
_FULL_SHARE = 0.95
"""Of the blocks: where none is left, each that is freed is taken at once."""
_MUCH_TOKENS = 1000.0
"""Counted while a share of blocks stays to the digit: some sequence must have taken a block."""
_GAUGES = (Signal.RUNNING, Signal.WAITING, Signal.KV_USAGE)
_RATES = {
    Signal.GENERATION_RATE: Signal.GENERATION_TOKENS,
    Signal.PROMPT_RATE: Signal.PROMPT_TOKENS,
}
_OUTSIDE = (
    Signal.GATEWAY_OUTPUT_TOKENS,
    Signal.GATEWAY_ENDED,
    Signal.GATEWAY_PROMPT_TOKENS,
)
_ENGINE_SOURCES = (SourceKind.METRICS, SourceKind.PROMETHEUS, SourceKind.LOG)


def _judge(window: Window) -> Verdict | None:
    now = activity_of(window)
    truth = truth_of(now)
    for find in (
        _busy_in_vain,
        _one_of_several,
        _one_that_is_gone,
        _rate_of_nothing,
        _idle_in_vain,
        _zero_for_a_while,
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
    standing = [series for series in _standing(now.window) if series.last.value > 0]
    is_busy = any(series.signal in (Signal.RUNNING, Signal.WAITING) for series in standing)
    if not is_busy or truth.is_asleep or now.window.events_of(LogKind.NO_PROGRESS):
        return None
    if truth.is_answered is False or truth.is_wanted:
        return None
    start = max(series.first.at for series in standing)
    if moves_since(now, start):
        return None
    for series in standing:
        argument.says(f"{stands(series)}: to the digit")
    for signal in _RATES:
        rate = now.window.find(signal)
        if rate is not None and rate.is_constant and rate.last.value > 0:
            argument.says(f"{stands(rate)}: to the digit")
    _cite_counters(argument, now)
    for sentence in truth.says:
        argument.says(sentence)
    _cite_beside(argument, now.window)
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


def _standing(window: Window) -> list[Series]:
    """Gauges of the engine that were read twice at least and never changed."""
    found = [
        series
        for signal in _GAUGES
        for series in window.all_series(signal)
        if series.origin.kind in _ENGINE_SOURCES
    ]
    if any(not series.is_constant for series in found if len(series.readings) > 1):
        return []
    return [
        series for series in found if series.is_constant and series.span_seconds >= _LEAST_SECONDS
    ]


def _one_of_several(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """One rank stands still to the digit, others move, and what is in flight is theirs."""
    if truth.in_flight is None:
        return None
    parts = now.window.all_series(Signal.RUNNING)
    frozen = [
        part
        for part in parts
        if part.labels and part.is_constant and part.last.value > 0 and _counts_nothing(now, part)
    ]
    others = [part for part in parts if part not in frozen]
    if not frozen or not others or len(frozen) > len(others):
        return None
    live = sum(part.last.value for part in others)
    waiting = [
        part
        for part in now.window.all_series(Signal.WAITING)
        if any(part.labels == other.labels for other in others)
    ]
    live += sum(part.last.value for part in waiting)
    if truth.in_flight.last.value > live + max(1.0, _READ_APART * live):
        return None
    for part in frozen:
        names = ", ".join(f"{key} {value}" for key, value in sorted(part.labels.items()))
        argument.says(f"{stands(part)} ({names}): to the digit, and its tokens do not move")
    for part in others:
        argument.series(part)
    argument.says(f"{'; '.join(truth.says)}: what the others have is all that there is")
    argument.against("routing.skew: the frozen one has nothing in flight")
    argument.against("engine.hung: nobody waits for it")
    return Confidence.CERTAIN if truth.is_answered else Confidence.LIKELY


def _one_that_is_gone(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A series of somebody who was taken away stands, while those of the others move."""
    by_name: dict[str, list[Series]] = {}
    for series in now.window.series:
        if series.labels and series.origin.kind in _ENGINE_SOURCES:
            by_name.setdefault(series.origin.name, []).append(series)
    for siblings in by_name.values():
        frozen = [
            part
            for part in siblings
            if part.is_constant and part.last.value > 0 and part.span_seconds >= _LEAST_SECONDS
        ]
        moving = [part for part in siblings if len(part.readings) > 1 and not part.is_constant]
        for part in frozen if moving else ():
            said = _said_gone(now, set(part.labels.values()))
            if said:
                names = ", ".join(f"{key} {value}" for key, value in sorted(part.labels.items()))
                argument.says(f"{stands(part)} ({names}): to the digit, and it is gone")
                for other in moving:
                    argument.series(other, "moves")
                for sentence in said:
                    argument.says(sentence)
                argument.against("routing.skew and release.leak: nobody is there any more")
                return Confidence.CERTAIN
    return None


def _said_gone(now: Activity, names: set[str]) -> list[str]:
    """Changes and facts that name one of them and say that it is no more."""
    gone = r"away|delet|remov|terminat|gone|scaled (in|down)|drain|killed|evict|retired|not exist"
    texts = [f"{change.at:g} s: {change.what}" for change in now.window.changes] + [
        f"{fact.key} {fact.raw}" for fact in now.window.facts
    ]
    return [
        text
        for text in texts
        if re.search(gone, text, re.IGNORECASE)
        and any(
            re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)
            for name in names
            if len(name) > 1
        )
    ]


_READ_APART = 0.2
"""Of what runs: gauges and gateway are read at different moments."""


def _counts_nothing(now: Activity, part: Series) -> bool:
    counters = [
        series
        for signal in WORK
        for series in now.window.all_series(signal)
        if series.labels == part.labels and len(series.readings) > 1
    ]
    return bool(counters) and not any(series.increase for series in counters)


def _cite_counters(argument: Argument, now: Activity) -> None:
    for signal in WORK:
        series = now.window.find(signal)
        if series is not None and len(series.readings) > 1:
            argument.says(stands(series) if series.is_constant else moved(series))
    if now.window.find(Signal.GENERATION_TOKENS) is None:
        argument.series(now.decode, "no token comes")


def _cite_beside(argument: Argument, window: Window) -> None:
    """What else speaks for an engine that is idle or well."""
    for fact in told_all(
        window, r"\bgpu\b.*(util|busy|percent|power)|cancel|abort|stopped|ended|requests last"
    ):
        argument.fact(fact)


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
        _cite_beside(argument, now.window)
        argument.against("release.leak: what is computed would be counted")
        return Confidence.CERTAIN if stands_still and idle else Confidence.LIKELY
    return None


def _idle_in_vain(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """All that the engine exports stands still while its answers reach callers."""
    engine = [
        series
        for series in now.window.series
        if series.origin.kind in _ENGINE_SOURCES and not series.signal.value.startswith("gateway")
    ]
    counters = [
        series
        for series in engine
        if series.signal.terms.kind is SignalKind.COUNTER and len(series.readings) > 1
    ]
    if not counters or any(series.increase for series in counters):
        return None
    if any(len(series.readings) > 1 and not series.is_constant for series in engine):
        return None
    span = max(series.span_seconds for series in counters)
    outside = _outside(now)
    if span < _LEAST_SECONDS or not outside:
        return None
    for series in counters[:3]:
        argument.says(f"{stands(series)}: to the digit")
    for series in _standing(now.window):
        argument.says(stands(series))
    for sentence in (*outside, *truth.says):
        argument.says(sentence)
    argument.against("engine.hung: answers reach their callers meanwhile")
    return Confidence.CERTAIN


def _zero_for_a_while(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """Gauges that say nothing runs at a moment at which answers come out, and catch up later."""
    running, inside = now.running, truth.in_flight
    if running is None or inside is None:
        return None
    for reading in inside.readings:
        shown, queued = running.at(reading.at), now.waiting and now.waiting.at(reading.at)
        if not reading.value or shown is None or shown.value or (queued and queued.value):
            continue
        came = [
            fact
            for fact in told_all(
                now.window, r"(token|chunk|answer|byte)s?\b.*\b(received|seen|out)\b"
            )
            if fact.at == reading.at and number_of(fact)
        ]
        zeros = _zero_since(running, shown.at)
        if not came or reading.at - zeros < _LEAST_ZERO:
            continue
        argument.says(f"{course(running)}: nothing runs as of {shown.at:g} s")
        argument.says(f"{inside.origin.name} {reading.raw} at {reading.at:g} s")
        for fact in came:
            argument.fact(fact, "so the engine works")
        _cite_beside(argument, now.window)
        argument.against("queue.blocked: tokens reach their callers meanwhile")
        return Confidence.CERTAIN
    return None


_LEAST_ZERO = 10.0
"""Seconds. A gauge is a step or a scrape old anyway."""


def _zero_since(series: Series, at: float) -> float:
    """Since when it has had the value that it has at `at`."""
    begun = at
    for reading in reversed(series.readings):
        if reading.at > at:
            continue
        if reading.value:
            break
        begun = reading.at
    return begun


def _outside(now: Activity) -> list[str]:
    """That tokens or answers come out, counted beside the engine."""
    found = [
        moved(series)
        for signal in _OUTSIDE
        if (series := now.window.find(signal)) is not None and (series.increase or 0) > 0
    ]
    speed = told_number(
        now.window,
        r"(client|gateway|proxy|router|measured|observed|real|true)\b.*(tok|token|answer|request|"
        r"completion)",
        without=r"in ?flight|timeout|limit|wait|ttft|latency",
    )
    value = number_of(speed)
    if speed is not None and value is not None and value > 0:
        found.append(f"{speed.key} {speed.raw}")
    return found


def _stuck_share(argument: Argument, now: Activity, truth: Truth) -> Confidence | None:
    """A share of blocks that stays while tokens come by the thousand."""
    tokens = now.window.find(Signal.GENERATION_TOKENS)
    kv = now.window.find(Signal.KV_USAGE)
    if tokens is None or kv is None or not kv.is_constant or kv.span_seconds < _LEAST_SECONDS:
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
