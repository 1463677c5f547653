"""A cache that fills while hardly a token is written: a prompt is read, which some engines count
only at its end."""

from itertools import pairwise

from controlplane.diagnosis.views.activity import Activity
from controlplane.diagnosis.views.course import late

_LEAST_RISE = 0.01
"""Of the cache: thousands of tokens."""
_MOSTLY = 0.6
"""Of the readings, in which it rises."""
_CRAWL = 1.0
"""Tokens a second for each that runs: what they write does not fill a cache."""


def is_filled_by_prefill(now: Activity) -> bool:
    """By more than those that run can write."""
    kv, running = now.kv, now.running
    if kv is None or running is None or len(kv.readings) < 3:
        return False
    steps = [after - before for before, after in pairwise(kv.values)]
    rises = sum(step > 0 for step in steps) >= _MOSTLY * len(steps)
    if not rises or kv.last.value - kv.first.value < _LEAST_RISE:
        return False
    return now.decode is None or late(now.decode) <= _CRAWL * max(late(running), 1.0)
