"""One replica whose steps take longer than those of the others."""

from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.verdict import Verdict
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.course import late
from controlplane.diagnosis.views.course_parts import (
    observed_parts,
    rates,
    recent_mean,
    recent_rate,
)
from controlplane.diagnosis.views.phases import phases_of
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal

_LATER = 1.8
"""Times the others' steps: batches that differ by a few requests differ by less."""
_MORE = 1.6


def late_replica(window: Window) -> Verdict | None:
    """Steps of one replica take longer than those of the others, with no more in its batch: it is
    its host, its links or its device, and no engine tells which."""
    paces = _paces(window)
    if len(paces) < 2 or phases_of(window) is not None:
        return None
    slowest = max(paces, key=lambda place: paces[place])
    others = sorted(pace for place, pace in paces.items() if place != slowest)
    usual = others[len(others) // 2]
    if usual <= 0 or paces[slowest] < _LATER * usual:
        return None
    batches = _batches(window)
    if _has_more_to_do(slowest, batches) or _throws_out(window, slowest):
        return None
    argument = Argument(window)
    argument.says(
        f"a step or token takes {paces[slowest] * 1000:.3g} ms on {slowest}, "
        f"{usual * 1000:.3g} ms on the others"
    )
    counts = ", ".join(f"{place} {value:.0f}" for place, value in batches.items())
    argument.says(f"with no more in its batch: {counts}")
    argument.against("queue.overload, cache.thrash: its batch and its cache are as the others'")
    argument.need("how busy its device is", "CPU and clocks of its host", "time in collectives")
    became = _was_as_fast(window, slowest)
    return argument.verdict(
        Confidence.LIKELY if became else Confidence.POSSIBLE,
        detail=f"{slowest} is slower than the others",
    )


def _batches(window: Window) -> dict[str, float]:
    """Requests that run, by replica."""
    return {
        series.labels["replica"]: late(series)
        for series in window.all_series(Signal.RUNNING)
        if "replica" in series.labels
    }


def _has_more_to_do(place: str, batches: dict[str, float]) -> bool:
    beside = [value for other, value in batches.items() if other != place]
    return bool(beside) and batches.get(place, 0.0) > _MORE * max(*beside, 1.0)


def _throws_out(window: Window, place: str) -> bool:
    return any(
        series.labels.get("replica") == place and (series.increase or 0.0) > 0
        for series in window.all_series(Signal.PREEMPTIONS)
    )


def _was_as_fast(window: Window, slowest: str) -> bool:
    """As the others, at the beginning: devices of another kind are slower all the time."""
    for signal in (Signal.STEP_TIME, Signal.ITL, Signal.TPOT):
        means = {}
        for histogram in window.histograms:
            parts = observed_parts(histogram, window)
            if histogram.signal is signal and parts is not None and parts[0].count > 0:
                means[histogram.labels.get("replica", "")] = parts[0].sum / parts[0].count
        others = [mean for place, mean in means.items() if place != slowest]
        if slowest in means and others:
            return means[slowest] < _LATER * max(others)
    paces = {}
    for series in window.all_series(Signal.GENERATION_SECONDS):
        place = series.labels.get("replica", "")
        spent = rates(series, window)
        made = rates(window.find(Signal.GENERATION_TOKENS, replica=place), window)
        if spent is not None and made is not None and made.before > 0:
            paces[place] = spent.before / made.before
    others = [pace for place, pace in paces.items() if place != slowest]
    return slowest in paces and bool(others) and paces[slowest] < _LATER * max(others)


def _paces(window: Window) -> dict[str, float]:
    """Seconds of a step or a token of late, by replica."""
    for signal in (Signal.STEP_TIME, Signal.ITL, Signal.TPOT):
        found = {
            histogram.labels["replica"]: mean
            for histogram in window.histograms
            if histogram.signal is signal and "replica" in histogram.labels
            if (mean := recent_mean(histogram, window)) is not None
        }
        if len(found) > 1:
            return found
    seconds = {
        series.labels.get("replica", ""): recent_rate(series, window)
        for series in window.all_series(Signal.GENERATION_SECONDS)
    }
    tokens = {
        series.labels.get("replica", ""): recent_rate(series, window)
        for series in window.all_series(Signal.GENERATION_TOKENS)
    }
    return {
        place: spent / made
        for place, spent in seconds.items()
        if place and spent and (made := tokens.get(place))
    }
