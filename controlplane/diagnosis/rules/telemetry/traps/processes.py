"""One engine behind several API servers: each process exports the gauge, one of them is told its
value, and the others keep the zero that they began with."""

import re

from controlplane.diagnosis.citing import number
from controlplane.diagnosis.confidence import Confidence
from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.telemetry.readers import READER, names_read
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.told import plain, share_of
from dataplane.engine_metrics.signal import Signal, SignalKind

_NEAR = 0.02
"""Of the mean: panels round."""
_MEAN = re.compile(
    r"\b(avg|mean|average)\s*(by\s*\(.*?\)\s*|without\s*\(.*?\)\s*)?\(", re.IGNORECASE
)
_SAID = {Signal.KV_USAGE: r"cache usage: [\d.]+ ?%|token usage: [\d.]+"}
"""How the engine's own log has it."""
_SHOWN = rf"{READER}|shown|shows|displayed|\b(mean|average|averaged|avg)\b"


def mean_over_processes(argument: Argument, now: Activity) -> Confidence | None:
    """A gauge of one engine, averaged with the zeros of processes that do not know it."""
    for signal in (Signal.KV_USAGE, Signal.RUNNING, Signal.WAITING):
        parts = _of_one_engine(now, signal)
        if len(parts) < 2:
            continue
        told = [part for part in parts if part.max > 0]
        if len(told) != 1:
            continue
        mean = told[0].last.value / len(parts)
        shown = [fact for fact in now.window.facts if _is_mean(fact, mean, signal)]
        asked = [
            read
            for read in names_read(now.window)
            if read.name == told[0].origin.name and _MEAN.search(read.text)
        ]
        if not shown and not asked:
            continue
        argument.says(
            f"{told[0].origin.name}: one of {len(parts)} processes says {told[0].last.raw}, the "
            f"others 0: their mean is {number(round(mean, 4))}"
        )
        for fact in shown:
            argument.fact(fact, "that mean")
        for read in asked:
            argument.says(read.said)
        _cite_work(argument, now, signal)
        argument.against("batch.underfilled and healthy: the engine holds what one process says")
        return Confidence.CERTAIN if shown else Confidence.LIKELY
    return None


def _of_one_engine(now: Activity, signal: Signal) -> list[Series]:
    """Gauges that differ by their process alone."""
    parts = [part for part in now.window.all_series(signal) if part.labels.get("process")]
    apart = {
        tuple(sorted((key, value) for key, value in part.labels.items() if key != "process"))
        for part in parts
    }
    return parts if len(apart) == 1 and signal.terms.kind is SignalKind.GAUGE else []


def _is_mean(fact: Fact, mean: float, signal: Signal) -> bool:
    value = share_of(fact) if signal is Signal.KV_USAGE else fact.value
    if value is None or mean <= 0 or abs(value - mean) > _NEAR * mean:
        return False
    return re.search(_SHOWN, plain(fact.key)) is not None


def _cite_work(argument: Argument, now: Activity, signal: Signal) -> None:
    for line in now.window.lines_with(_SAID.get(signal, r"(?!)"))[-1:]:
        argument.says(" ".join(line.split())[-160:])
    for series in (now.running, now.decode, now.in_flight):
        argument.series(series)
    for change in now.window.changes:
        argument.change(change)
