"""Whether scrapes follow each other so closely that each shows one step or none."""

import itertools
import statistics

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.counted_at_end import is_told_by_ends
from dataplane.engine_metrics.signal import Signal

_STEPS = 2.0
"""Between two scrapes, at most: a token for each that runs is one."""
_PLAUSIBLE_SECONDS = 2.0
"""A step of a small model on a busy processor. Scrapes further apart show single steps only where
steps are counted, and then at most one by one."""


def shows_single_steps(now: Activity) -> bool:
    """What comes between two scrapes is about a token for each that runs, and they are no further
    apart than a step may take. Then a scrape without any is the middle of a step, and no pace is
    read from so few."""
    made, running = now.window.find(Signal.GENERATION_TOKENS), now.running
    if made is None or running is None or is_told_by_ends(made, now.window):
        return False
    came = [after - before for before, after in itertools.pairwise(made.values) if after > before]
    if not came or statistics.median(came) > _STEPS * running.mean:
        return False
    return _seconds_between(made) <= _PLAUSIBLE_SECONDS or _counts_single_steps(now)


def _seconds_between(series: Series) -> float:
    return statistics.median(
        after.at - before.at for before, after in itertools.pairwise(series.readings)
    )


def _counts_single_steps(now: Activity) -> bool:
    """The engine's own count of steps says so, whatever the scrapes' distance."""
    steps = now.window.find(Signal.STEPS)
    if steps is None or not steps.increase:
        return False
    return all(after - before <= 1 for before, after in itertools.pairwise(steps.values))
