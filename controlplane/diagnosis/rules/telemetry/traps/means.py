"""Means that are over another time than their reader thinks."""

import re

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.rules.telemetry.readers import readers
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_number

_SUM_OVER_COUNT = re.compile(r"\w+_sum\b[^/]*/[^/]*\w+_count\b")
_OVER_SOME_TIME = re.compile(r"\b(rate|irate|increase|delta|idelta|deriv)\s*\(|\[\w+\]")
_APART = 2.0
"""Between the mean of a whole life and that of now."""


def mean_since_start(argument: Argument, now: Activity) -> Confidence | None:
    """Sum over count without a rate: the mean of all requests since the process began."""
    window = now.window
    read = [
        fact
        for fact in readers(window)
        if _SUM_OVER_COUNT.search(fact.raw) and not _OVER_SOME_TIME.search(fact.raw)
    ]
    shown = told_number(
        window, r"\b(panel|dashboard|grafana|shown|lifetime|overall|reported)\b", without=r"last"
    )
    lately = told_number(
        window,
        r"\b(last|past|recent|lately|right now|client|gateway|users?|measured)\b.*"
        r"\b(mean|avg|ttft|itl|tpot|e2e|latency|p50)\b",
    )
    before, after = number_of(shown), number_of(lately)
    if not read or shown is None or lately is None or not before or not after:
        return None
    if shown.unit is not lately.unit or max(before / after, after / before) < _APART:
        return None
    for fact in read:
        argument.fact(fact, "a mean since the start: no rate is taken")
    argument.fact(shown)
    argument.fact(lately)
    for series in (now.waiting, now.running):
        argument.series(series)
    argument.against("a wrong clock or a wrong histogram: both of its counters are right")
    return Confidence.CERTAIN
