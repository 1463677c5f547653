"""Percentiles that a histogram's buckets cannot tell."""

import math

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import HistogramSeries
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import number_of, told_all
from dataplane.engine_metrics.signal import Unit

_AT = 0.01
"""Of a bound: what is shown is rounded."""


def below_first_bucket(argument: Argument, now: Activity) -> Confidence | None:
    """A percentile within the first bucket of a histogram: a straight line, and no measurement."""
    for histogram in now.window.histograms:
        observed = histogram.observed
        if not observed.count or not observed.bounds:
            continue
        for fact in told_all(now.window, r"."):
            if _is_interpolated(fact, histogram):
                argument.fact(fact, "interpolated within the first bucket")
                first, mean = observed.bounds[0], histogram.mean
                argument.says(
                    f"{histogram.origin.name}: {number(observed.counts[0])} of "
                    f"{number(observed.count)} are below its first bound of {number(first)} s"
                )
                if mean is not None:
                    argument.says(f"{histogram.origin.name}: mean {number(mean)} s")
                argument.against("a real latency: the mean says otherwise")
                return Confidence.LIKELY
    return None


def _is_interpolated(fact: Fact, histogram: HistogramSeries) -> bool:
    observed, value, share = histogram.observed, number_of(fact), fact.quantile
    if value is None or share is None or fact.unit is not Unit.SECONDS or not observed.count:
        return False
    if not _is_of(fact, histogram) or observed.counts[0] < share * observed.count:
        return False
    line, mean = histogram.quantile(share), histogram.mean
    if line is None or mean is None:
        return False
    return abs(value - line) <= 0.05 * line and mean < 0.5 * value


def _is_of(fact: Fact, histogram: HistogramSeries) -> bool:
    """False where the key names another latency than the histogram's."""
    named = _LATENCIES & fact.words
    return not named or bool(named & set(histogram.signal.value.split("_")))


_LATENCIES = frozenset({"ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode"})


def above_last_bucket(argument: Argument, now: Activity) -> Confidence | None:
    """A percentile that stands at the last finite bound: it is that or anything above."""
    for histogram in now.window.histograms:
        observed = histogram.observed
        finite = [bound for bound in observed.bounds if math.isfinite(bound)]
        if len(finite) < 2 or not observed.count:
            continue
        beyond = observed.count - observed.counts[len(finite) - 1]
        for fact in told_all(now.window, r"."):
            value, share = number_of(fact), fact.quantile
            if value is None or share is None or fact.unit is not Unit.SECONDS:
                continue
            is_cut = beyond > (1 - share) * observed.count
            if not is_cut or abs(value - finite[-1]) > _AT * finite[-1]:
                continue
            argument.fact(fact, "the last finite bound, and no measurement")
            argument.says(
                f"{histogram.origin.name}: {number(beyond)} of {number(observed.count)} are above "
                f"its last finite bound of {number(finite[-1])} s"
            )
            return Confidence.CERTAIN
    return None
