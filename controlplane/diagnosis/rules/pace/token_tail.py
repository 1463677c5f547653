"""A few tokens that wait very long, among many that do not."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.pace.collapse import LEAST_PREFILL, LONG_PROMPT
from controlplane.diagnosis.rules.pace.prefill_chunk import cite_chunk, weigh
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.prompts import longest_prompt, prompts_by_histogram
from controlplane.diagnosis.views.told import plain, told, told_all
from dataplane.engine_metrics.signal import Signal

_TAIL = 8.0
"""Times the median: a token that waits for one chunk of thousands of tokens."""
_TAIL_SECONDS = 0.2
_MUCH_PREFILL = 4.0
"""Times the decoded tokens: then steps are mostly prefill."""


def of_tail(argument: Argument, now: Activity) -> Verdict | None:
    """A few tokens that wait very long, among many that do not, while much is prefilled."""
    tail = _tail_of_histogram(argument, now) or _tail_told(argument, now)
    if not tail or (now.is_full and now.preemptions is None):
        return None
    is_prefilling = is_mostly_prefill(argument, now)
    argument.series(now.kv)
    argument.series(now.waiting)
    cite_chunk(argument, now)
    weigh(argument, now)
    if is_prefilling:
        return argument.verdict(Confidence.LIKELY)
    argument.need(
        "prefill tokens computed over time", "tokens of a step (prefill and decode)", "step time"
    )
    return argument.verdict(Confidence.POSSIBLE)


def _tail_of_histogram(argument: Argument, now: Activity) -> bool:
    for signal in (Signal.ITL, Signal.TPOT, Signal.GATEWAY_TPOT):
        histogram = now.window.find_histogram(signal)
        if histogram is None:
            continue
        middle, tail = histogram.quantile(0.5), histogram.quantile(0.99)
        if middle is None or tail is None or tail < max(_TAIL_SECONDS, _TAIL * middle):
            continue
        argument.histogram(
            histogram,
            tail,
            f"{histogram.origin.name}: median about {middle * 1000:.3g} ms, p99 about "
            f"{tail * 1000:.3g} ms",
        )
        return True
    return False


def _tail_told(argument: Argument, now: Activity) -> bool:
    facts = told_all(now.window, r"\b(itl|tpot|inter token|decode latency|token gap|gap)\b")
    middles = [fact for fact in facts if fact.quantile == 0.5 and fact.value]
    tails = [
        fact
        for fact in facts
        if fact.value and ((fact.quantile or 0) >= 0.95 or re.search(r"\bmax\b", plain(fact.key)))
    ]
    if not middles or not tails:
        return False
    middle, tail = middles[-1].value or 0.0, tails[-1].value or 0.0
    if tail < max(_TAIL_SECONDS, _TAIL * middle):
        return False
    argument.fact(middles[-1])
    argument.fact(tails[-1])
    return True


def is_mostly_prefill(argument: Argument, now: Activity) -> bool:
    prefill, decode = now.prefill, now.decode
    if prefill is not None and decode is not None and prefill.mean >= _MUCH_PREFILL * decode.mean:
        argument.says(
            f"{number(round(prefill.mean))} tokens/s of prefill beside "
            f"{number(round(decode.mean))} of decode"
        )
        return prefill.mean >= LEAST_PREFILL
    lengths = prompts_by_histogram(now.window)
    if lengths is not None and lengths[1] >= LONG_PROMPT:
        argument.says(f"prompts up to about {number(round(lengths[1]))} tokens (p99)")
        return True
    longest = longest_prompt(now.window)
    beside = told(now.window, r"long prompts|prefill share|prefill tokens")
    if longest is not None and longest.value >= LONG_PROMPT:
        argument.says(longest.says)
        return True
    argument.fact(beside)
    return beside is not None
