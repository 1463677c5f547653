"""How long no token came between tokens that did: as long again says nothing of a standstill.

counter    111   115   115   119   119   119   123   123
by scrape      +4     0    +4     0     0    +4     0     an ordinary step is longer than a scrape
"""

import itertools

from controlplane.diagnosis.reading import Series
from controlplane.diagnosis.rules.life.silence import LONG_SECONDS
from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.counted_at_end import is_told_by_ends
from dataplane.engine_metrics.signal import Signal

_TIMES = 3.0
"""Longer than the longest gap so far: a scrape may come right before a token as well as right after
it, and prompts that are read make steps longer."""


def is_usual_gap(now: Activity, start: float, seconds: float) -> bool:
    """Whether `seconds` from `start` on without a token is what comes between tokens here. A minute
    never is, nor is anything where tokens are counted when an answer ends."""
    made = now.window.find(Signal.GENERATION_TOKENS)
    if made is None or seconds >= LONG_SECONDS or is_told_by_ends(made, now.window):
        return False
    came = [
        after.at
        for before, after in itertools.pairwise(made.readings)
        if after.value > before.value and after.at <= start
    ]
    gaps = [
        until - since
        for since, until in itertools.pairwise([made.first.at, *came])
        if _runs_all_along(now.running, since, until)
    ]
    return bool(gaps) and seconds <= _TIMES * max(gaps)


def _runs_all_along(running: Series | None, since: float, until: float) -> bool:
    """A gap in which nothing ran is of no step."""
    part = None if running is None else running.between(since, until)
    return part is not None and part.min > 0
