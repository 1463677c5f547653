"""Measured against predicted: the same arrivals, once served and once simulated.

A prediction is the median over several simulations that differ in their noise alone.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dataplane.latency import Latencies, derive_latencies
from dataplane.record import RequestRecord
from dataplane.simulation.fitting.cost import FittedCost
from dataplane.simulation.fitting.document import Fit
from dataplane.simulation.fitting.replay import (
    ReplayedRequest,
    ReplicaBounds,
    replay,
    requests_of,
)

FIGURES = ("ttft p50", "ttft p95", "tpot p50", "tpot p95", "completed/s")
NUM_SIMULATIONS = 15


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of traffic came to, in seconds."""

    ttfts: tuple[float, ...]
    """Ascending."""
    tpots: tuple[float, ...]
    """Ascending."""
    completed_per_s: float

    @property
    def figures(self) -> tuple[float, ...]:
        """In the order of FIGURES."""
        return (
            quantile(self.ttfts, 0.5),
            quantile(self.ttfts, 0.95),
            quantile(self.tpots, 0.5),
            quantile(self.tpots, 0.95),
            self.completed_per_s,
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """One run of traffic."""

    load: str
    """light or near."""
    num_requests: int
    measured: Outcome
    simulated: tuple[Outcome, ...]

    @property
    def predicted(self) -> tuple[float, ...]:
        """In the order of FIGURES."""
        each = zip(*(outcome.figures for outcome in self.simulated), strict=True)
        return tuple(statistics.median(values) for values in each)

    @property
    def errors(self) -> tuple[float, ...]:
        """Of the prediction, as shares of what was measured."""
        pairs = zip(self.predicted, self.measured.figures, strict=True)
        return tuple(predicted / measured - 1 for predicted, measured in pairs)


def quantile(ascending: Sequence[float], share: float) -> float:
    """By nearest rank."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def compare(
    load: str, records: Sequence[RequestRecord], fit: Fit, bounds: ReplicaBounds, seed: int
) -> Comparison:
    """`records` are of all requests of one run, which began with an idle engine."""
    first = min(record.arrived_at_unix_ns for record in records)
    ends = [(r.arrived_at_unix_ns - first) / 1e9 + (r.latencies.server.e2e or 0.0) for r in records]
    measured = _outcome([record.latencies for record in records], max(ends))
    simulated = simulate(requests_of(records), fit, bounds, seed)
    return Comparison(load, len(records), measured, simulated)


def simulate(
    requests: Sequence[ReplayedRequest], fit: Fit, bounds: ReplicaBounds, seed: int
) -> tuple[Outcome, ...]:
    """What the same arrivals come to, several times."""
    simulated = []
    for number in range(NUM_SIMULATIONS):
        own_seed = seed * NUM_SIMULATIONS + number
        cost = FittedCost.of(fit, own_seed)
        lives = replay(requests, bounds, cost, fit.overheads, own_seed)
        latencies = [
            derive_latencies(events, request.num_output_tokens)
            for events, request in zip(lives, requests, strict=True)
        ]
        last = max(request.at + life[-1].at for request, life in zip(requests, lives, strict=True))
        simulated.append(_outcome(latencies, last))
    return tuple(simulated)


def _outcome(latencies: Sequence[Latencies], seconds: float) -> Outcome:
    ttfts = [each.server.ttft for each in latencies if each.server.ttft is not None]
    tpots = [each.server.tpot for each in latencies if each.server.tpot is not None]
    return Outcome(tuple(sorted(ttfts)), tuple(sorted(tpots)), len(ttfts) / seconds)
