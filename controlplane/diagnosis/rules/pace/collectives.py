"""How much of a step goes to collectives between devices: measured, or counted and timed."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, plain, share_of, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.shares import SHARE
from dataplane.engine_metrics.signal import Unit

COLLECTIVE = (
    r"\b(nccl\w*|rccl\w*|hccl\w*|oneccl|ccl|all ?reduces?\w*|all ?gathers?|reduce ?scatters?"
    r"|all ?to ?alls?|a2a|collectives?|communication|comms?|inter ?gpu|cross device reduce|deepep"
    r"|(expert|moe|token|ep) (dispatch|combine|exchange)|tensor parallel sync|rank sync"
    r"|(gpu|device|tp|node|cross node|network) syncs?|sync (time|ms|wait) per (token|step))\b"
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
_OF_TIME = (
    r"\b(share|time|step|iteration|forward|decode|prefill|wall|exposed|overhead|gpu|kernels?"
    r"|percent|pct|fraction|compute|profile|spent)\b"
)
_NO_TIME = (
    r"\b(memory|buffers?|fill(ed)?|progress|bandwidth|success\w*|usage|loss|errors?|version|weights?"
    r"|fail\w*|cache)\b"
)
_STEP = r"\b(step|iteration|itl|tpot|per token|decode step|layer|total|forward)\b"
_COUNT = r"\b(per (token|step|forward|iteration|layer)|calls?|count|number|num)\b"


def share_of_step(argument: Argument, window: Window) -> float | None:
    """As somebody measured it, or as the time of collectives over that of a step."""
    for find in (
        _share_told,
        _share_in_words,
        _share_beside_a_name,
        _share_of_tokens,
        _time_over_step,
    ):
        share = find(argument, window)
        if share is not None:
            return share
    return None


def _share_told(argument: Argument, window: Window) -> float | None:
    facts = [
        fact
        for fact in reversed(told_all(window, COLLECTIVE, without=r"bandwidth|\bbw\b|busbw|link"))
        if fact.unit in (None, Unit.RATIO)
    ]
    for fact in facts:
        if not re.search(_OF_TIME, plain(fact.key)) or re.search(_NO_TIME, plain(fact.key)):
            continue
        if re.search(rf"{SHARE}|of step", f"{plain(fact.key)} {fact.raw}"):
            share = share_of(fact)
            if share is not None:
                argument.fact(fact, "of a step")
                return share
    for fact in facts:
        value = number_of(fact)
        if not re.search(_OF_TIME, plain(fact.key)) or re.search(_NO_TIME, plain(fact.key)):
            continue
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
                shares = said.groupdict()
                argument.says(text.strip()[:200])
                return float(shares.get("after") or shares.get("before") or 0.0) / 100
    return None


def _share_beside_a_name(argument: Argument, window: Window) -> float | None:
    """The kernel under one key, and its share under the same with a word for it:
    `top_kernel: ncclAllReduce`, `top_kernel_share: 0.6`."""
    named = [
        fact
        for fact in window.facts
        if fact.value is None and re.search(rf"\b{_KERNEL}", fact.raw, re.IGNORECASE)
    ]
    for name in named:
        words = set(plain(name.key).split())
        for fact in told_all(window, SHARE):
            more = set(plain(fact.key).split()) - words
            is_of_it = words - _OF_A_NAME <= set(plain(fact.key).split()) and fact.at == name.at
            share = share_of(fact)
            if is_of_it and share is not None and re.search(SHARE, " ".join(sorted(more))):
                argument.fact(name)
                argument.fact(fact, "of a step")
                return share
    return None


_OF_A_NAME = frozenset({"name", "is", "called"})


def _share_of_tokens(argument: Argument, window: Window) -> float | None:
    pairs = [
        (float(found[1]), float(found[2]), line)
        for line in window.lines_with(_SYNCED)
        if (found := re.search(_SYNCED, line, re.IGNORECASE)) is not None
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
    for fact in reversed(told_all(window, COLLECTIVE, without=r"\b(without|except|besides)\b")):
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
