"""What one page tells of a histogram, as its state at a time."""

import itertools
import math

from controlplane.diagnosis.reading import HistogramReading
from dataplane.engine_metrics.gathering import Gathered


def state_of(gathered: Gathered, at: float) -> HistogramReading | None:
    """In the unit of the signal. None where its buckets are no histogram's."""
    factor = gathered.known.alias.factor
    bounds = tuple(sorted(gathered.buckets))
    counts = tuple(gathered.buckets[bound] for bound in bounds)
    if not all(map(math.isfinite, counts)) or any(
        after < before for before, after in itertools.pairwise(counts)
    ):
        return None
    count = max(gathered.count, counts[-1] if counts else 0.0)
    if not bounds or bounds[-1] != math.inf:
        bounds, counts = (*bounds, math.inf), (*counts, count)
    return HistogramReading(
        at,
        tuple(bound * factor for bound in bounds),
        counts,
        gathered.sum * factor,
        count,
    )
