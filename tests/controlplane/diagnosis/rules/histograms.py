"""Histograms for tests of rules, by how many were observed up to each bound."""

import itertools
from dataclasses import replace

from controlplane.diagnosis.reading import HistogramReading, HistogramSeries, Origin, SourceKind
from controlplane.diagnosis.window import Window
from dataplane.engine_metrics.signal import Signal


def histogram(
    signal: Signal, *observed: dict[float, int], every: float = 10.0, **labels: str
) -> HistogramSeries:
    """A reading for each of `observed`, which says how many fell below each bound since the one
    before; the sum takes each at its bound."""
    bounds = (*sorted({bound for each in observed for bound in each}), float("inf"))
    counts = [0.0] * len(bounds)
    total, readings = 0.0, []
    for index, each in enumerate(observed):
        fallen = [float(each.get(bound, 0)) for bound in bounds]
        counts = [a + b for a, b in zip(counts, itertools.accumulate(fallen), strict=True)]
        total += sum(bound * count for bound, count in each.items())
        readings.append(HistogramReading(index * every, bounds, tuple(counts), total, counts[-1]))
    return HistogramSeries(
        signal=signal,
        origin=Origin(kind=SourceKind.METRICS, name=f"test:{signal.value}"),
        readings=tuple(readings),
        labels=labels,
    )


def with_histograms(seen: Window, *histograms: HistogramSeries) -> Window:
    """`seen`, with these besides, and as long as the longest."""
    end = max([seen.end, *(each.readings[-1].at for each in histograms)])
    return replace(seen, histograms=histograms, end=end)
