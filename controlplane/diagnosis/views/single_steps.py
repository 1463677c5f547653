"""Whether scrapes follow each other so closely that each shows one step or none."""

import itertools
import statistics

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.counted_at_end import is_told_by_ends
from dataplane.engine_metrics.signal import Signal

_STEPS = 2.0
"""Between two scrapes, at most: a token for each that runs is one."""


def shows_single_steps(now: Activity) -> bool:
    """What comes between two scrapes is about a token for each that runs. Then a scrape without any
    is the middle of a step, and no pace is read from so few."""
    made, running = now.window.find(Signal.GENERATION_TOKENS), now.running
    if made is None or running is None or is_told_by_ends(made, now.window):
        return False
    came = [after - before for before, after in itertools.pairwise(made.values) if after > before]
    return bool(came) and statistics.median(came) <= _STEPS * running.mean
