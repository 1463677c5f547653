"""Times that cannot be: below zero, wrapped around an unsigned number, or an end before a start."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.durations import durations_in
from controlplane.diagnosis.views.told import number_of, plain, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

TIMES = (
    r"latency|ttft|itl|tpot|queue|transfer|delay|duration|elapsed|wait|gap|time|span|\bage\b|lag|transit|"
    r"hop|network|cost|took|ago|seen|heartbeat|inter token|per token|first token|e2e|minus"
    r"|to (engine|server|gateway|client|decode|prefill|router|worker|node|replica|pod)"
)
NO_TIME = (
    r"offset|skew|drift|clock|ntp|budget|left|remaining|change|delta|diff|saved|slack|gain|cost usd"
    r"|timezone|tz\b|\b(vs|versus|against|compared|relative|better|worse|faster|slower|usual"
    r"|baseline|target|objective|threshold|limit)\b|improve|reduc"
)
"""A comparison may well be less than nothing."""
_ISSUED = r"\b(iat|nbf|clocks?|issued)\b"
NOT_YET = rf"{_ISSUED}[^\n]*not yet valid|not yet valid[^\n]*{_ISSUED}"
"""A certificate or a token alone is not yet valid by its own date."""

_NAMES = r"\b(ids?|seed|hash|digest|checksum|uuid|nonce)\b"
"""Of keys: such numbers are of nobody's clock."""
_WRAPPED = 2**63
"""An unsigned 64-bit difference that went below zero stands above it."""
_TICKS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3}
_WRAPS = tuple(
    (2**bits * tick, f"2^{bits} {unit}", 1e-6 if bits > 32 else 1e-5)
    for bits in (63, 64, 32)
    for unit, tick in _TICKS.items()
    if bits > 32 or unit != "ns"
)
"""How long a wrapped difference is, in seconds, what it is, and how near it must be: of 32 bits the
numbers are such as people meet (49 days 17 h), so only the digits tell."""
_YEARS = re.compile(r"\b(292|584)(\.\d+)? ?(y|yrs?|years)\b", re.IGNORECASE)
_BEFORE = (
    r"\b(starts?|started|begins?|begun|ends?|ended|ending|received|arriv\w+|responses?|answers?"
    r"|replies|reply|results?|finish\w*|complet\w+|done|child(ren)?|spans?|decode\w*"
    r"|handled|stops?|stopped)( \w+)? (before|earlier than|precedes?|preceding)( (its|their|the))? "
    r"(requests?|questions?|calls?|parents?|starts?|started|begin\w*|begun|sent|send|sending"
    r"|issued|asked|dispatch\w*|enqueued|creat\w+|prefill( \w+)* (end\w*|done|finish\w*))$"
)
"""An end before the start of the same thing, and nothing that happened to end before something."""
_AS_LONG = 0.15


def negative_times(argument: Argument, window: Window) -> tuple[str, ...]:
    """Durations below zero, as often as they were told, and ends before their starts; their keys
    in plain words."""
    found: dict[str, list[Fact]] = {}
    for fact in told_all(window, TIMES, without=f"{NO_TIME}|{_NAMES}"):
        value = number_of(fact)
        if value is not None and value < 0 and fact.unit in (Unit.SECONDS, None):
            found.setdefault(fact.key, []).append(fact)
    for key, facts in found.items():
        argument.says(f"{key} {', '.join(fact.raw for fact in facts)}: less than no time")
    before = [fact for fact in told_all(window, _BEFORE) if (number_of(fact) or 0.0) > 0]
    for fact in before:
        argument.fact(fact, "which cannot be")
    return tuple(plain(key) for key in (*found, *(fact.key for fact in before)))


def wrapped(argument: Argument, window: Window) -> tuple[str, ...]:
    """A difference that was below zero, in an unsigned number; keys of such in plain words."""
    found: dict[str, None] = {}
    for fact in _of_times(window):
        for text in re.findall(r"\d{19,20}", fact.raw):
            if int(text) >= _WRAPPED:
                below = 2**64 - int(text)
                argument.says(f"{fact.key} {fact.raw} = 2^64 - {below}: a duration of -{below}")
                found[plain(fact.key)] = None
        what = _wrapped_to(fact)
        others = [each for each in window.facts if each.key == fact.key and each is not fact]
        sane = next((each for each in others if _wrapped_to(each) is None), None)
        if what is not None:
            argument.says(f"{fact.key} {fact.raw} = {what}: a difference below zero, unsigned")
            argument.fact(sane, "at another time")
            found[plain(fact.key)] = None
    return tuple(found)


def as_long_as_an_epoch(argument: Argument, window: Window) -> tuple[str, ...]:
    """Durations that are a Unix time themselves: a wall clock's time, less one that counts from the
    boot of the host or from nothing; keys of such in plain words."""
    lasting = told_all(window, rf"\b({_LASTING})\b", without=rf"{_MOMENTS}|{NO_TIME}|{_NAMES}")
    found = [
        fact
        for fact in lasting
        if fact.unit is Unit.SECONDS and _EPOCH[0] <= (number_of(fact) or 0.0) < _EPOCH[1]
    ]
    for fact in found:
        years = (fact.value or 0.0) / _YEAR_SECONDS
        argument.says(f"{says(fact)}: {years:.0f} years, which is a wall clock's time itself")
    return tuple(plain(fact.key) for fact in found)


def sane_times(argument: Argument, window: Window) -> bool:
    """Durations of the same work that are as they should be, told beside such that cannot be."""
    sane = [
        fact
        for fact in window.facts
        if fact.unit is Unit.SECONDS and 0 < (number_of(fact) or 0.0) < _DAY_SECONDS
    ]
    for fact in sane[:4]:
        argument.fact(fact, "a duration as they are")
    return bool(sane)


_LASTING = (
    r"spans?|duration|elapsed|took|wait(ed|ing)?|latency|ttft|itl|tpot|e2e|delay|lag|transfer|queue"
    r"|time"
)
_MOMENTS = (
    r"\b(at|starts?|started|ends?|ended|begin|began|timestamp|ts|stamp|unix|epoch|created|now|date"
    r"|when|deadline|expir\w+)\b|^(?!.*\b(wait|queue|spent)\b).*\btime$"
)
"""Of keys: that such a number is right there."""
_EPOCH = (1.0e9, 2.5e9)
"""Unix times from 2001 to 2049, in seconds."""
_YEAR_SECONDS = 365.25 * 86400
_DAY_SECONDS = 86400.0


def is_wrapped_now_and_then(window: Window) -> bool:
    """What else is a sane duration: nothing that always subtracts the wrong way."""
    wraps = {fact.key for fact in _of_times(window) if _wrapped_to(fact) is not None}
    return any(fact.key in wraps and _wrapped_to(fact) is None for fact in window.facts)


def _of_times(window: Window) -> tuple[Fact, ...]:
    return told_all(window, rf"{TIMES}|time ?stamp|interval|\b(ms|us|ns)$", without=_NAMES)


def _wrapped_to(fact: Fact) -> str | None:
    if found := _YEARS.search(fact.raw):
        return f"2^{63 if found[1] == '292' else 64} ns"
    seconds = sum(each for _, each in durations_in(fact.raw))
    if fact.value is not None:
        seconds = fact.value if fact.unit is Unit.SECONDS else 0.0
    for length, what, near in _WRAPS:
        if abs(seconds - length) <= near * length:
            return what
    return None


def negative_sums(argument: Argument, window: Window) -> Confidence | None:
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
