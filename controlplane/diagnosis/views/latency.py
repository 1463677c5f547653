"""Latencies that somebody told, and whether they are short on anybody's scale."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import plain, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.latency import FIRST_TOKEN
from dataplane.engine_metrics.signal import Unit

_LATENCY = r"\b(ttft|tpot|itl|first token|inter token|per token)\b"
_NOT_NOW = (
    r"\b(before|old|other|max|objective|slo|sla|target|limit|timeout|expected|baseline|usual)\b"
)
_FIRST_SECONDS = 1.0
"""Until the first token: people who chat take a second for an answer at once."""
_NEXT_SECONDS = 0.1
"""Between tokens: ten a second is faster than anybody reads."""


def latencies(window: Window) -> list[Fact]:
    """Of first and of following tokens, in seconds, as they are now."""
    return [
        fact
        for fact in told_all(window, _LATENCY, without=_NOT_NOW)
        if fact.unit is Unit.SECONDS and fact.value is not None
    ]


def is_quick(fact: Fact) -> bool:
    """Whether nobody would complain of it."""
    is_first = re.search(FIRST_TOKEN, plain(fact.key)) is not None
    bound = _FIRST_SECONDS if is_first else _NEXT_SECONDS
    return fact.value is not None and fact.value <= bound
