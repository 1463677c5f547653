"""Prompts that became longer, and tokens that wait for a chunk of them since."""

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.pace.prefill_chunk import weigh
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.course_parts import (
    Parts,
    median_of,
    observed_parts,
    rates,
    share_above,
)
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LONGER = 1.5
_TAILS = ((4.0, 0.003, 3.0), (2.0, 0.01, 5.0))
"""Times the median before, the share of tokens above that, and how many times as many as before."""
_SLOWER_PACE = 1.15


def since_prompts_grew(now: Activity) -> Verdict | None:
    """Prompts became longer within the window, and since then some tokens wait for a chunk of
    them."""
    window = now.window
    waits = 0.0 if now.backlog is None else late(now.backlog)
    batch = 1.0 if now.running is None else max(late(now.running), 1.0)
    grown = _prompt_growth(window)
    if grown is None or grown.factor < _LONGER or waits > batch or now.is_full:
        return None
    argument = Argument(window)
    argument.says(
        f"prompt tokens for each answer: {number(round(grown.before))} -> "
        f"{number(round(grown.after))}"
    )
    if not _tail_grew(argument, window) and not _pace_fell(argument, window):
        return None
    argument.series(now.prefill)
    argument.series(now.waiting)
    argument.series(now.kv)
    weigh(argument, now)
    argument.against("cache.grown_contexts: the cache is not full")
    return argument.verdict(Confidence.LIKELY)


def _prompt_growth(window: Window) -> Parts | None:
    """Tokens that a request's prefill takes, in the first and in the last third."""
    parts = observed_parts(window.find_histogram(Signal.PROMPT_LENGTH), window)
    if parts is not None and parts[0].count > 0 and parts[1].count > 0:
        return Parts(parts[0].sum / parts[0].count, parts[1].sum / parts[1].count)
    for signal in (Signal.COMPUTED_PROMPT_TOKENS, Signal.PROMPT_TOKENS):
        tokens, ended = rates(window.find(signal), window), None
        for counted in (Signal.FINISHED, Signal.GATEWAY_ENDED, Signal.GATEWAY_ARRIVED):
            ended = ended or rates(window.find(counted), window)
        if tokens is not None and ended is not None and ended.before > 0 and ended.after > 0:
            return Parts(tokens.before / ended.before, tokens.after / ended.after)
    return None


def _tail_grew(argument: Argument, window: Window) -> bool:
    for signal in (Signal.ITL, Signal.TPOT, Signal.STEP_TIME):
        parts = observed_parts(window.find_histogram(signal), window)
        middle = None if parts is None else median_of(parts[0])
        if parts is None or middle is None:
            continue
        for times, least, growth in _TAILS:
            bound = times * middle
            before, after = share_above(parts[0], bound), share_above(parts[1], bound)
            if after >= least and after >= growth * max(before, least / growth):
                argument.says(
                    f"{signal.value} above {bound * 1000:.3g} ms: {before * 100:.2g} % -> "
                    f"{after * 100:.2g} %"
                )
                return True
    return False


def _pace_fell(argument: Argument, window: Window) -> bool:
    """Where no histogram tells it: seconds of decoding for each token."""
    spent = rates(window.find(Signal.GENERATION_SECONDS), window)
    made = rates(window.find(Signal.GENERATION_TOKENS), window)
    if spent is None or made is None or made.before <= 0 or made.after <= 0 or spent.before <= 0:
        return False
    before, after = spent.before / made.before, spent.after / made.after
    if after < _SLOWER_PACE * before:
        return False
    argument.says(f"{before * 1000:.3g} -> {after * 1000:.3g} ms a token")
    return True
