"""What says that clocks differ, that one is not kept, or that a clock that can be set was used for
durations."""

import re

from controlplane.diagnosis.citing import number, says
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.rules.telemetry.clocks.impossible import NO_TIME, NOT_YET, TIMES
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, says_no, told_all
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

LEAST_OFFSET = 0.010
"""Seconds. Machines that are kept by NTP in one building differ by one to five milliseconds."""
_FAR_APART = 1.0
"""Seconds: nothing that keeps clocks leaves them so far from each other."""
_AS_LONG = 0.15
"""By how much of it the true duration may add to an offset."""
_BY_HOW_MUCH = r"\b(offset|skew|drift|diff(erence)?|delta|minus|ahead|behind|apart|error|off)\b"
_OFFSET = (
    r"\b(ntp|chronyd?|ptp|timesyncd)\b|\btime ?sync\b"
    rf"|\b(clocks?|time)\b.*{_BY_HOW_MUCH}|{_BY_HOW_MUCH}.*\bclocks?\b"
    r"|\b(hosts?|nodes?|machines?)\b.*\boffset\b|\boffset\b.*\b(hosts?|nodes?|machines?)\b"
)
"""Of clocks: shards, batches and consumers have a skew, a drift or an offset of their own."""
_NO_OFFSET = r"sync|limit|threshold|allowed|rope|\bheads?\b|overhead|kafka|consumer|mhz|ghz"
_DEVICE_CLOCK = re.compile(
    r"\b(gpu|sm|mem(ory)?|graphics|cpu|core|boost|shader|dram)s?( \w+)? clocks?\b"
    r"|\bclocks?( \w+)? (throttl\w*|speed|rate|frequency)|[mg]hz|thermal",
    re.IGNORECASE,
)
"""What beats in a chip, and tells no time."""
_SYNCED = r"(ntp|chrony|clock|time|ptp).*(sync|status|service|active)|unsync"
_UNKEPT = (
    r"\b(ntp|chronyd?|ptp|clock|time|timesyncd)\b.*\b(not|un|never|lost|no)[ -]?(sync\w*|kept"
    r"|running|active|installed|reachable|locked)"
    r"|\bclock\b.*\b(behind|ahead|fast|slow|wrong|off by)\b"
)
_SET = (
    r"\b(clock|time|chronyd?|ntpd?|timesyncd)\b.{0,40}\b(slew\w*|step(s|ped|ping)?|jump(s|ed)?"
    r"|went|moved?|goes|going|set|adjusted)\b.{0,20}\bback(wards?)?\b"
    r"|\b(slew\w*|stepp?\w*|set|jump\w*)( the| its)? (clock|time) back(wards?)?\b"
)
_LINE = (
    r"clock (was )?(set|stepped|jumped|skew)|time jump|system clock|chronyd?[^\n]*"
    r"(offset|step)|timesync|ntpd?[^\n]*(offset|step)|clock skew|timestamps? .*in the future|"
    rf"too far (in|into) the future|{NOT_YET}|requesttimetooskewed|signature expired"
    r"|seconds (slow|fast) of ntp|leap status *: *not sync|clock synchronized: no"
    r"|clock (difference|drift) (against|is|too|of)|high clock drift"
    r"|(time|clock) (went|moved|goes|jumped) back|seconds? time difference between"
    r"|request timestamp.{0,40}(expired|too (old|far))"
)
_WALL_CLOCK = (
    r"system_clock|clock_realtime|time\.time(_ns)?\b|wall ?-?_?clock|gettimeofday"
    r"|datetime\.(utc)?now|date\.now|currenttimemillis|systemtime::now|realtime clock"
)
_OFFSET_LINE = r"clock offset|offset: -?(\d{2,}|[1-9]\d*\.\d|0\.[1-9]|0\.0[1-9])|mis-?aligned"


def far_apart(window: Window) -> bool:
    """Clocks of machines were measured, and differ by what nothing leaves that keeps them."""
    return any(
        fact.unit is Unit.SECONDS and abs(number_of(fact) or 0.0) >= _FAR_APART
        for fact in told_all(window, _OFFSET, without=_NO_OFFSET)
    )


def apart(argument: Argument, window: Window) -> bool:
    """Something says that the clocks differ, or that one is not kept."""
    found = [look(argument, window) for look in (_unkept, _offsets, _in_words, _both_ways)]
    return any(found)


def _unkept(argument: Argument, window: Window) -> bool:
    found = False
    for fact in window.facts:
        text = f"{plain(fact.key)} {fact.raw}"
        if fact.value is not None or _DEVICE_CLOCK.search(text):
            continue
        if re.search(_UNKEPT, text, re.IGNORECASE):
            argument.fact(fact, "this clock is not kept")
            found = True
    for fact in told_all(window, _SYNCED):
        if says_no(fact) or re.search(r"not|unsync|inactive|stopped|lost|fail", fact.raw.lower()):
            argument.fact(fact, "this clock is not kept")
            found = True
        else:
            argument.fact(fact)
    return found


def _offsets(argument: Argument, window: Window) -> bool:
    found = False
    for fact in told_all(window, _OFFSET, without=_NO_OFFSET):
        value = number_of(fact)
        if value is not None and fact.unit is Unit.SECONDS and abs(value) >= LEAST_OFFSET:
            argument.fact(fact)
            found = True
    return found


def _in_words(argument: Argument, window: Window) -> bool:
    found = False
    for fact in window.facts:
        text = f"{plain(fact.key)}: {fact.raw}"
        if fact.value is None and re.search(f"{_LINE}|{_SET}", text, re.IGNORECASE):
            argument.fact(fact)
            found = True
    for line in window.lines_with(f"{_LINE}|{_OFFSET_LINE}")[:3]:
        argument.says(" ".join(line.split())[:200])
        found = True
    for change in window.changes_with(rf"{_LINE}|{_SET}|\bntp\b|chrony|time ?sync"):
        argument.change(change)
        found = True
    return found


def _both_ways(argument: Argument, window: Window) -> bool:
    """One way takes about as much more than nothing as the way back takes less."""
    ways: dict[tuple[str, str], tuple[Fact, float]] = {}
    for fact in window.facts:
        found, value = _WAY.search(plain(fact.key)), number_of(fact)
        if found and value is not None and fact.unit is Unit.SECONDS:
            ways[found[1], found[2]] = (fact, value)
    for (start, end), (fact, value) in ways.items():
        back = ways.get((end, start))
        if back is None or not value > 0 > back[1]:
            continue
        if abs(value + back[1]) <= _AS_LONG * value:
            offset = number((value - back[1]) / 2)
            argument.says(f"{says(fact)}, {says(back[0])}: clocks that are {offset} s apart")
            return True
    return False


_WAY = re.compile(r"\b(\w+) to (\w+)\b")


def by_wall_clock(argument: Argument, window: Window) -> bool:
    """Durations are differences of a clock that is set now and then."""
    found = [
        fact
        for fact in window.facts
        if fact.value is None and re.search(_WALL_CLOCK, fact.raw, re.IGNORECASE)
    ]
    for fact in found:
        argument.fact(fact, "a clock that can be set")
    return bool(found)


def is_offset(argument: Argument, window: Window) -> bool:
    """A duration between two machines that is just as long as their clocks are apart."""
    offsets = [
        (fact, abs(value))
        for fact in told_all(window, _OFFSET, without=_NO_OFFSET)
        if (value := number_of(fact)) is not None and abs(value) >= LEAST_OFFSET
    ]
    for fact in told_all(window, TIMES, without=NO_TIME):
        value = number_of(fact)
        for offset, between in offsets:
            if value is not None and value > 0 and abs(value - between) <= _AS_LONG * between:
                argument.says(f"{says(fact)} is what the clocks are apart: {says(offset)}")
                return True
    return False


def is_step(argument: Argument, window: Window) -> bool:
    """A clock was set by so much, and some durations are longer by just that, others are not."""
    texts = [fact.raw for fact in window.facts if fact.value is None] + list(
        window.lines_with(_LINE)
    )
    steps = [
        float(found[1]) * _STEP_UNITS[found[2][0:2].rstrip("e")]
        for text in texts
        if re.search(_LINE, text, re.IGNORECASE)
        for found in re.finditer(r"(\d+(?:\.\d+)?) ?(ms|milliseconds|s|sec|seconds)\b", text)
    ]
    times = [
        (fact, value)
        for fact in told_all(window, TIMES, without=NO_TIME + r"|interval")
        if (value := number_of(fact)) is not None and value > 0 and fact.unit is Unit.SECONDS
    ]
    for step in steps:
        longer = [pair for pair in times if step <= pair[1] <= _WITH_STEP * step]
        others = [pair for pair in times if pair[1] < _WITHOUT_STEP * step]
        if step >= LEAST_OFFSET and longer and others:
            said = ", ".join(says(fact) for fact, _ in longer)
            rest = ", ".join(says(fact) for fact, _ in others)
            argument.says(f"{said}: longer by the step of {number(step)} s; {rest}: not")
            return True
    return False


_STEP_UNITS = {"ms": 0.001, "mi": 0.001, "s": 1.0, "se": 1.0}
_WITH_STEP = 1.5
_WITHOUT_STEP = 0.5
