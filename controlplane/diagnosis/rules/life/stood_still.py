"""Answers that stood still for seconds, again and again, and went on.

An engine that is stopped for some seconds leaves little on its own page: nobody reads it meanwhile,
and it goes on where it was. Whoever waits for tokens sees it. So it is read from the longest gap of
each answer, as gateways see their engines send: a client that reads slowly makes none.
"""

import itertools

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.reading import HistogramReading, HistogramSeries, without_restarts
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.activity import activity_of
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LONG_SECONDS = 2.0
"""No step takes so long but one with a long prompt in it."""
_TIMES_USUAL = 20.0
"""The usual time of a token: an engine that is slow all the time does not stand still."""
_SEVERAL = 3
"""Answers."""
_AGAIN = 2
"""Stretches between two readings, in which such answers ended."""
_SHORT_PROMPT = 1000.0
"""Tokens, on average: hardly any engine takes seconds for them."""
_UNANSWERED = 2
"""Scrapes: a front end that is only busy answers the next one."""


def judge_pauses(window: Window) -> Verdict | None:
    """POSSIBLE: that answers stood still is seen, and why is not. LIKELY where the engine's page
    did not answer again and again either, and no long prompts came."""
    gaps = window.find_histogram(Signal.GATEWAY_LONGEST_GAP)
    if gaps is None or _is_otherwise_explained(window):
        return None
    least = _long(window, gaps.observed)
    num_long, num_stretches = _over(gaps.observed, least), _stretches_with(gaps, least)
    if num_long < _SEVERAL or num_stretches < _AGAIN:
        return None
    argument = Argument(window)
    argument.histogram(
        gaps,
        num_long,
        f"{gaps.origin.name}: {number(num_long)} of {number(gaps.observed.count)} answers stood "
        f"still for over {number(least)} s, in {num_stretches} stretches of what was watched",
    )
    argument.need(
        "whether its process was stopped, swapped or throttled (a freezer, a CPU quota, SIGSTOP)",
        "the lengths of the prompts that came meanwhile",
        "steps over time, as its log or its histogram of steps tells them",
    )
    unanswered = told(window, r"^scrapes unanswered$")
    detail = f"answers stood still for over {number(least)} s, again and again"
    if (number_of(unanswered) or 0.0) < _UNANSWERED or not _are_prompts_short(window, gaps):
        argument.against("interference.prefill: a long prompt of another would look the same")
        return argument.verdict(Confidence.POSSIBLE, detail=detail)
    argument.fact(unanswered, "its page stood still as well")
    argument.against("interference.prefill: the prompts that came are short")
    return argument.verdict(Confidence.LIKELY, detail=detail)


def _is_otherwise_explained(window: Window) -> bool:
    """Requests that are thrown out of the batch, or whose engine waits for their client, stand
    still alone."""
    preemptions = activity_of(window).preemptions
    thrown = 0.0 if preemptions is None else preemptions.increase or 0.0
    slow = window.all_series(Signal.GATEWAY_SLOW_CLIENTS)
    return thrown > 0 or any(series.increase for series in slow)


def _long(window: Window, observed: HistogramReading) -> float:
    """The bound of the histogram from which on a gap is long."""
    pace = window.find_histogram(Signal.GATEWAY_TPOT)
    usual = None if pace is None else pace.quantile(0.5)
    least = max(_LONG_SECONDS, _TIMES_USUAL * (usual or 0.0))
    return next((bound for bound in observed.bounds if bound >= least), float("inf"))


def _over(observed: HistogramReading, least: float) -> float:
    below = dict(zip(observed.bounds, observed.counts, strict=True)).get(least)
    return 0.0 if below is None else observed.count - below


def _stretches_with(gaps: HistogramSeries, least: float) -> int:
    over = [_over(reading, least) for reading in without_restarts(gaps.readings)]
    return sum(after > before for before, after in itertools.pairwise(over))


def _are_prompts_short(window: Window, gaps: HistogramSeries) -> bool:
    """On average, as gateways counted them."""
    tokens = window.find(Signal.GATEWAY_PROMPT_TOKENS)
    grown = None if tokens is None else tokens.increase
    return grown is not None and grown <= _SHORT_PROMPT * gaps.observed.count
