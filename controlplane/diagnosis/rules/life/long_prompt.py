"""Whether counters that stand may be one long prompt, of which nothing is told until it is done."""

import re

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.told import number_of, says_no, share_of, told_all, told_number

PROMPT_SECONDS = 1800.0
"""No prompt is computed for half an hour, not even on a CPU: 100,000 tokens at 60 tokens/s."""
_COUNTED_AT_END = frozenset({"llama.cpp"})
"""Engines that export a prompt's tokens only when all are computed, and no use of their cache."""
_CHUNKED = r"chunked prefill|chunked pf|prefill chunk(ing|ed)?$"
_PROMPT = r"\b(prompt|input|isl)\b.*\b(tokens?|length|len)\b|\b(longest|largest) (prompt|input)\b"
_LONG_TOKENS = 32_000
"""Unchunked, or beside a full batch, it takes tens of seconds on one device."""
_IDLE = 0.05
"""Of a device's time: it computes nothing, no prompt either."""


def may_be_prefill(now: Activity) -> bool:
    """False where prompts are computed in chunks that show, or the device computes nothing."""
    busy = told_number(now.window, r"\b(gpu|device|npu|sm|cpu)\b.*\b(util\w*|busy)\b")
    share = share_of(busy)
    if share is not None and share <= _IDLE:
        return False
    engine = now.window.engine
    if engine is not None and engine.name in _COUNTED_AT_END:
        return True
    chunked = told_all(now.window, _CHUNKED)
    if chunked and (says_no(chunked[-1]) or re.fullmatch(r"-1|unset", chunked[-1].raw.strip())):
        return True
    return any(
        (number_of(fact) or 0.0) >= _LONG_TOKENS
        for fact in told_all(
            now.window, _PROMPT, without=r"max|limit|total|per s|rate|model|cached"
        )
    )
