"""How much of a step goes to collectives between devices: measured, or counted and timed."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all, told_number
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Unit

COLLECTIVE = (
    r"\b(nccl\w*|rccl\w*|hccl\w*|oneccl|ccl|all ?reduces?\w*|all ?gathers?|reduce ?scatters?"
    r"|all ?to ?alls?|a2a|collectives?|communication|comms?|inter ?gpu|cross device reduce|deepep"
    r"|(expert|moe|token|ep) (dispatch|combine|exchange)|ring|broadcasts?|tensor parallel sync"
    r"|syncs?|sync time|rank sync)\b"
)
_KERNEL = (
    r"(?:nccl|rccl|hccl|oneccl)\w*|(?:cross_device|one_shot|two_shot|custom)_?(?:all_?)?reduce\w*"
    r"|all_?reduce\w*|all_?gather\w*|all_?to_?all\w*|reduce_?scatter\w*|deep_?ep\w*"
)
_IN_WORDS = (
    rf"\b(?P<kernel>{_KERNEL})\b[^%\n]{{0,60}}?\b(?P<after>\d+(?:\.\d+)?) ?%",
    rf"(?<![\d.])(?P<before>\d+(?:\.\d+)?) ?%[^%\n]{{0,60}}?\b(?P<kernel>{_KERNEL})",
    rf"^\s*(?P<before>\d+\.\d)\s+[\d,]{{4,}}\s.*\b(?P<kernel>{_KERNEL})",
)
"""A profile's line or what somebody says of one: a kernel beside its share of the time."""
_SYNCED = r"\bPred\s+(\d+) ms\s+Sync\s+(\d+) ms"
"""Of one token, as distributed-llama writes it: computing, and waiting for the other nodes."""
_STEP = r"\b(step|iteration|itl|tpot|per token|decode step|layer|total|forward)\b"
_COUNT = r"\b(per (token|step|forward|iteration|layer)|calls?|count|number|num)\b"
_ONE_OF_THEM = (
    rf"({COLLECTIVE}|round trips?|rtt|latency of (one|each)|\bhop\b)"
    r"(?!.*\b(total|per (token|step|forward|iteration)|share|interval|timeout)\b)"
)
_IMPROVED = r"\b(one shot|after|fixed|nvlink|with|expected|best|would|could|other|reference)\b"


def share_of_step(argument: Argument, now: Activity) -> float | None:
    """As somebody measured it, or as the time of collectives over that of a step."""
    window = now.window
    return (
        _share_told(argument, window)
        or _share_in_words(argument, window)
        or _time_over_step(argument, window)
    )


def seconds_of_step(now: Activity) -> float | None:
    """Of one step, which gives each that runs one token; None where the pace is not known."""
    if now.decode is None or late(now.decode) <= 0:
        told = told_number(now.window, r"\b(itl|tpot|decode step|step time|per token)\b")
        is_time = told is not None and told.unit is Unit.SECONDS
        return number_of(told) if is_time else None
    running = 1.0 if now.running is None else max(late(now.running), 1.0)
    return running / late(now.decode)


def counted_seconds(argument: Argument, window: Window) -> float | None:
    """Of a step: how many collectives it has, times how long one takes."""
    counts = [
        fact
        for fact in told_all(window, rf"(?=.*({COLLECTIVE}|\bround trips?\b))(?=.*{_COUNT})")
        if fact.unit in (None, Unit.COUNT) and (number_of(fact) or 0) >= 1
    ]
    each = [
        fact
        for fact in told_all(window, _ONE_OF_THEM)
        if fact.unit is Unit.SECONDS and number_of(fact) and fact not in counts
    ]
    if not counts or not each:
        return None
    one = min(each, key=lambda fact: (bool(re.search(_IMPROVED, plain(fact.key))), len(fact.key)))
    many, seconds = number_of(counts[-1]) or 0.0, number_of(one) or 0.0
    if re.search(r"per layer", plain(counts[-1].key)):
        layers = number_of(told_number(window, r"\blayers\b", without=COLLECTIVE))
        if not layers:
            return None
        many *= layers
    argument.fact(counts[-1])
    argument.fact(one, f"{number(many)} of them are {many * seconds * 1000:.3g} ms of a step")
    return many * seconds


def _share_told(argument: Argument, window: Window) -> float | None:
    facts = [
        fact
        for fact in reversed(told_all(window, COLLECTIVE, without=r"bandwidth|\bbw\b|busbw|link"))
        if fact.unit in (None, Unit.RATIO)
    ]
    for fact in facts:
        if re.search(r"share|percent|pct|fraction|%|of step", f"{plain(fact.key)} {fact.raw}"):
            share = share_of(fact)
            if share is not None:
                argument.fact(fact, "of a step")
                return share
    for fact in facts:
        value = number_of(fact)
        if fact.unit is None and value is not None and 0 < value < 1:
            argument.fact(fact, "of a step")
            return value
    return None


def _share_in_words(argument: Argument, window: Window) -> float | None:
    texts = [f"{fact.key}: {fact.raw}" for fact in window.facts if fact.value is None]
    for pattern in _IN_WORDS:
        for text in (*texts, *window.lines_with(pattern)):
            said = re.search(pattern, text, re.IGNORECASE)
            if said is not None:
                found = said.groupdict()
                argument.says(text.strip()[:200])
                return float(found.get("after") or found.get("before") or 0.0) / 100
    pairs = [
        (float(found[1]), float(found[2]), line)
        for line in window.lines_with(_SYNCED)
        if (found := re.search(_SYNCED, line)) is not None
    ]
    if not pairs:
        return None
    argument.says(pairs[-1][2].strip()[:200])
    spent = sum(pair[0] + pair[1] for pair in pairs)
    return sum(pair[1] for pair in pairs) / spent if spent else None


def _time_over_step(argument: Argument, window: Window) -> float | None:
    steps = [
        fact
        for fact in told_all(window, _STEP, without=rf"{COLLECTIVE}|ttft|tokens|queue")
        if fact.unit in (Unit.SECONDS, None) and number_of(fact)
    ]
    if not steps:
        return None
    whole = number_of(steps[-1]) or 0.0
    for fact in reversed(told_all(window, COLLECTIVE)):
        value = number_of(fact)
        if fact.unit is Unit.SECONDS and value is not None and not _is_one_of_many(fact, window):
            argument.fact(fact)
            argument.fact(steps[-1])
            return value / whole
    return None


def _is_one_of_many(fact: Fact, window: Window) -> bool:
    """How long one collective takes, where it is told how many there are."""
    is_whole = re.search(r"\b(per (token|step)|total|time|sum)\b", plain(fact.key))
    return not is_whole and bool(told_all(window, rf"(?=.*{COLLECTIVE})(?=.*{_COUNT})"))
