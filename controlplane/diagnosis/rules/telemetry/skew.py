"""clock.skew: times of two machines were held against each other, and their clocks differ."""

import re
from collections.abc import Sequence
from datetime import datetime

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.mechanism import Mechanism
from controlplane.diagnosis.rule import Rule
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, says_no, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

_LEAST_OFFSET = 0.010
"""Seconds. Machines that are kept by NTP in one building differ by one to five milliseconds."""
_AS_LONG = 0.15
"""By how much of it the true duration may add to an offset."""
_WRAPPED = 2**63
"""An unsigned 64-bit difference that went below zero stands above it."""
_TIMES = (
    r"latency|ttft|itl|tpot|queue|transfer|delay|duration|elapsed|wait|gap|time|span|age|lag|transit|"
    r"hop|network"
    r"|to (engine|server|gateway|client|decode|prefill|router|worker|node|replica|pod)"
)
_NO_TIME = r"offset|skew|drift|clock|ntp|budget|left|remaining|change|delta|diff|saved|slack"
_OFFSET = (
    r"offset|skew|drift|clock|ntp|chrony|ptp|time ?sync|time (difference|diff|delta)"
    r"|(time|clock) (ahead|behind)"
)
_NO_OFFSET = r"sync|limit|threshold|allowed|rope|\bheads?\b|overhead"
_SYNCED = r"(ntp|chrony|clock|time|ptp).*(sync|status|service|active)|unsync"
_UNKEPT = (
    r"\b(ntp|chrony|ptp|clock|time)\b.*\b(not|un|never|lost|no)[ -]?(sync|kept|running|active)"
    r"|\bclock\b.*\b(behind|ahead|fast|slow|wrong|off by)\b"
)
_CLOCK_LINE = (
    r"clock (was )?(set|stepped|jumped|skew)|set back by|time jump|system clock|chronyd?[^\n]*"
    r"(offset|step)|timesync|ntpd?[^\n]*(offset|step)|clock skew|timestamps? .*in the future|"
    r"too far (in|into) the future|not yet valid"
)
_OFFSET_LINE = r"clock offset|offset: -?(\d{2,}|[1-9]\d*\.\d|0\.[1-9]|0\.0[1-9])|mis-?aligned"
_NEGATIVE_LINE = (
    r"out[- ]of[- ]order samples?|"
    r"(ttft|latency|duration|elapsed|transfer|queue|delay|interval|took)\b[^\n]{0,24}?[=: ]-\d"
    r"|issued in the future|used before (it was )?issued"
    r"|negative (duration|latency|interval|time|elapsed|delta)"
)
_ORDER = (
    (r"(sent|send|dispatch\w*|enqueued|forwarded)", r"(received|receive|arriv\w+|accepted)"),
    (r"(prefill|encode)( \w+)* (end|ended|done|finish\w*)", r"decode( \w+)* (start\w*|begin\w*)"),
    (
        r"(prefill|ctx|context)( \w+)* (first token|end|ended|done|finish\w*)( \w+)*",
        r"(transfer|decode|gen|generation)( \w+)* (start\w*|begin\w*)",
    ),
    (r"(start|started|begin|begun)", r"(end|ended|finish\w*|stop\w*|done)"),
    (r"parent( \w+)* (start\w*)", r"child( \w+)* (start\w*)"),
)
"""What has to come first, and what after it."""


def _judge(window: Window) -> Verdict | None:
    argument = Argument(window)
    impossible = _negative(argument, window)
    impossible = _wrapped(argument, window) or impossible
    impossible = _reversed(argument, window) or impossible
    summed = _negative_sums(argument, window)
    if summed is not None:
        return argument.verdict(summed)
    lines = window.lines_with(_NEGATIVE_LINE)
    for line in lines[:2]:
        argument.says(" ".join(line.split())[:200])
    apart = _apart(argument, window)
    if apart and (_is_offset(argument, window) or _is_step(argument, window)):
        impossible = True
    if not (impossible or lines or apart):
        return None
    _cite_sound(argument, window)
    argument.against("a slow transfer, queue or network: no time is less than nothing")
    if (impossible or lines) and apart:
        return argument.verdict(Confidence.CERTAIN)
    if impossible and _two_places(window):
        argument.need("offset of both machines' clocks")
        return argument.verdict(Confidence.LIKELY)
    if apart and _is_compared(window):
        argument.need("the same interval measured on one clock")
        return argument.verdict(Confidence.LIKELY)
    if not (impossible or lines):
        return None
    argument.need("offset of both machines' clocks", "which process took each of the two times")
    return argument.verdict(Confidence.POSSIBLE)


def _negative(argument: Argument, window: Window) -> bool:
    """Times below zero, as often as they were told."""
    found: dict[str, list[Fact]] = {}
    for fact in told_all(window, _TIMES, without=_NO_TIME):
        value = number_of(fact)
        if value is not None and value < 0 and fact.unit in (Unit.SECONDS, None):
            found.setdefault(fact.key, []).append(fact)
    for key, facts in found.items():
        argument.says(f"{key} {', '.join(fact.raw for fact in facts)}: less than no time")
    before = told_all(
        window, r"\b(starts?|started|begins?|begun|ends?|ended|received|arrived) before (?!change)"
    )
    for fact in before:
        if number_of(fact):
            argument.fact(fact, "which cannot be")
            return True
    return bool(found)


def _negative_sums(argument: Argument, window: Window) -> Confidence | None:
    """A histogram of times whose sum went below zero: its ends are of two clocks."""
    below = [each for each in window.histograms if each.readings[-1].sum < 0]
    if not below:
        return None
    for histogram in below:
        last = histogram.readings[-1]
        argument.says(
            f"{histogram.origin.name}_sum {number(last.sum)} s over {number(last.count)}: "
            "less than no time"
        )
    _cite_sound(argument, window)
    argument.against("telemetry.misread: no way of reading makes a time negative")
    epoch = number_of(told_number(window, r"epoch|unix|wall"))
    uptime = number_of(told_number(window, r"uptime|monotonic|since boot")) or 0.0
    num = number_of(told_number(window, r"requests|affected|count"))
    if epoch is None or not num:
        argument.need("which clock took the arrival, and which the end")
        return Confidence.LIKELY
    apart = (epoch - uptime) * num
    whole = min(each.readings[-1].sum for each in below)
    if abs(-whole - apart) > _AS_LONG * apart:
        return Confidence.LIKELY
    argument.says(f"{number(num)} x -({number(epoch)} - {number(uptime)}) s is that sum")
    return Confidence.CERTAIN


def _wrapped(argument: Argument, window: Window) -> bool:
    """A difference that was below zero, in an unsigned number."""
    found = False
    for fact in window.facts:
        for text in re.findall(r"\d{19,20}", fact.raw):
            if int(text) >= _WRAPPED:
                below = 2**64 - int(text)
                argument.says(f"{fact.key} {fact.raw} = 2^64 - {below}: a duration of -{below}")
                found = True
    return found


def _reversed(argument: Argument, window: Window) -> bool:
    """What comes after stands before, each time that both were told."""
    found = 0
    for first, second in _ORDER:
        earlier = _moments(window, first, without=second)
        later = _moments(window, second, without=first)
        for fact, value in earlier:
            for other, after in later:
                if other.at == fact.at and after < value and _is_pair(fact, other):
                    argument.says(f"{says(other)} is before {says(fact)}")
                    found += 1
        if found:
            break
    return bool(found)


def _moments(window: Window, pattern: str, *, without: str) -> list[tuple[Fact, float]]:
    moments = []
    for fact in window.facts:
        key = plain(fact.key)
        if not re.search(rf"\b{pattern}\b", key) or re.search(rf"\b{without}\b", key):
            continue
        value = fact.value if fact.unit in (Unit.SECONDS, Unit.UNIX_SECONDS) else _clock(fact.raw)
        if value is not None:
            moments.append((fact, value))
    return moments


def _clock(raw: str) -> float | None:
    """Seconds of a date or a time of day; None for anything else."""
    text = raw.strip().replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        pass
    found = re.fullmatch(r"(\d{1,2}):(\d{2}):(\d{2}(?:[.,]\d+)?)", text)
    if found is None:
        return None
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3].replace(",", "."))


def _is_pair(one: Fact, two: Fact) -> bool:
    """Both are moments, or both are distances from one: `..._end_ms` and `..._start_ms`."""
    moment = (
        r"\b(at|time|timestamp|ts|unix|start\w*|end\w*|sent|send|received|arriv\w*|begin\w*|done"
        r"|finish\w*)\b"
    )
    return bool(re.search(moment, plain(one.key)) and re.search(moment, plain(two.key)))


def _apart(argument: Argument, window: Window) -> bool:
    """Something says that the clocks differ, or that one is not kept."""
    found = False
    for fact in window.facts:
        if fact.value is None and re.search(_UNKEPT, f"{plain(fact.key)} {fact.raw}", re.I):
            argument.fact(fact, "this clock is not kept")
            found = True
    for fact in told_all(window, _SYNCED):
        if says_no(fact) or re.search(r"not|unsync|inactive|stopped|lost|fail", fact.raw.lower()):
            argument.fact(fact, "this clock is not kept")
            found = True
        else:
            argument.fact(fact)
    for fact in told_all(window, _OFFSET, without=_NO_OFFSET):
        value = number_of(fact)
        if value is not None and fact.unit is Unit.SECONDS and abs(value) >= _LEAST_OFFSET:
            argument.fact(fact)
            found = True
    for fact in window.facts:
        if fact.value is None and re.search(_CLOCK_LINE, fact.raw, re.IGNORECASE):
            argument.fact(fact)
            found = True
    for line in window.lines_with(f"{_CLOCK_LINE}|{_OFFSET_LINE}")[:3]:
        argument.says(" ".join(line.split())[:200])
        found = True
    for change in window.changes_with(_CLOCK_LINE + r"|\bntp\b|chrony|time ?sync"):
        argument.says(f"{change.at:g} s: {change.what}")
        found = True
    return found


def _is_offset(argument: Argument, window: Window) -> bool:
    """A duration between two machines that is just as long as their clocks are apart."""
    offsets = [
        (fact, abs(value))
        for fact in told_all(window, _OFFSET, without=_NO_OFFSET)
        if (value := number_of(fact)) is not None and abs(value) >= _LEAST_OFFSET
    ]
    for fact in told_all(window, _TIMES, without=_NO_TIME):
        value = number_of(fact)
        for offset, apart in offsets:
            if value is not None and value > 0 and abs(value - apart) <= _AS_LONG * apart:
                argument.says(f"{says(fact)} is what the clocks are apart: {says(offset)}")
                return True
    return False


def _is_step(argument: Argument, window: Window) -> bool:
    """A clock was set by so much, and some durations are longer by just that, others are not."""
    texts = [fact.raw for fact in window.facts if fact.value is None] + list(
        window.lines_with(_CLOCK_LINE)
    )
    steps = [
        float(found[1]) * _STEP_UNITS[found[2][0:2].rstrip("e")]
        for text in texts
        if re.search(_CLOCK_LINE, text, re.IGNORECASE)
        for found in re.finditer(r"(\d+(?:\.\d+)?) ?(ms|milliseconds|s|sec|seconds)\b", text)
    ]
    times = [
        (fact, value)
        for fact in told_all(window, _TIMES, without=_NO_TIME + r"|interval")
        if (value := number_of(fact)) is not None and value > 0 and fact.unit is Unit.SECONDS
    ]
    for step in steps:
        longer = [pair for pair in times if step <= pair[1] <= _WITH_STEP * step]
        others = [pair for pair in times if pair[1] < _WITHOUT_STEP * step]
        if step >= _LEAST_OFFSET and longer and others:
            said = ", ".join(says(fact) for fact, _ in longer)
            rest = ", ".join(says(fact) for fact, _ in others)
            argument.says(f"{said}: longer by the step of {number(step)} s; {rest}: not")
            return True
    return False


_STEP_UNITS = {"ms": 0.001, "mi": 0.001, "s": 1.0, "se": 1.0}
_WITH_STEP = 1.5
_WITHOUT_STEP = 0.5


def _two_places(window: Window) -> bool:
    """What was told is of two machines."""
    names = {
        fact.raw
        for fact in told_all(window, r"\b(node|host|machine|pod|server|replica|zone)\b")
        if fact.value is None
    }
    keys = " ".join(plain(fact.key) for fact in window.facts)
    pairs = (
        ("prefill", "decode"),
        ("gateway", "engine"),
        ("client", "server"),
        ("sent", "received"),
    )
    return len(names) > 1 or any(one in keys and two in keys for one, two in pairs)


def _is_compared(window: Window) -> bool:
    """Times of two ends are held against each other."""
    return bool(
        told_all(window, r"(cross|between|one way|hop|transit|client to|gateway to|across)")
        or told_all(window, r"(start|end|sent|received|arrived).*\b(at|time|timestamp)\b")
    )


def _cite_sound(argument: Argument, window: Window) -> None:
    """Times of one clock that are as they should be."""
    facts: Sequence[Fact] = told_all(window, r"\b(ttft|e2e)\b|tokens? per s|tok per s|throughput")
    by_key: dict[str, list[Fact]] = {}
    for fact in facts:
        value = number_of(fact)
        if value is not None and value > 0:
            by_key.setdefault(fact.key, []).append(fact)
    for key, told in by_key.items():
        argument.says(f"{key} {', '.join(fact.raw for fact in told)}: sound, of one clock")
    for fact in told_all(window, r"^(\w+ )?(node|host|machine)$"):
        if fact.value is None:
            argument.fact(fact)


SKEW = Rule(
    id="clock-skew",
    mechanism=Mechanism.CLOCK_SKEW,
    judge=_judge,
    needs=("times of the same request on two machines", "offset of the machines' clocks"),
    told_apart=(
        "From transfer.bound and a slow network by times below zero, or by a difference that stays "
        "the same whatever the load; from telemetry.misread by a clock that is known to be off."
    ),
    remedy=(
        "Keep the clocks (NTP, chrony, PTP) and compare durations that were measured on one clock, "
        "never the ends of two; measure intervals with the steady clock."
    ),
    hides=(
        f"Cutting off what is below zero hides an offset of less than a duration: up to "
        f"{number(_LEAST_OFFSET * 1000)} ms it looks like a slow network."
    ),
    explains=frozenset(
        {Mechanism.TRANSFER_BOUND, Mechanism.PHASE_MISMATCH, Mechanism.TELEMETRY_MISREAD}
    ),
)
