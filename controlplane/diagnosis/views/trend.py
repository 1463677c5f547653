"""Whether a figure goes one way over its readings.

Neighbours that are equal, and one that is a little back, stand in any scrape: what counts is that
most of the way it makes is made in one direction, and in more than one step.
"""

from collections.abc import Sequence
from itertools import pairwise

_ONE_WAY = 0.8
"""Of all the way, up and down."""
_LEVELS = 3
"""Different ones: two may be of two different loads."""
_PARTS = 6
"""More readings than these are taken together: between scrapes a second apart a batch moves up and
down more than it does over all of them."""


def rises(values: Sequence[float]) -> bool:
    """Most of its way is up. False with fewer than three different levels."""
    way = _way(values)
    return bool(way) and sum(way) >= _ONE_WAY * sum(abs(step) for step in way)


def falls(values: Sequence[float]) -> bool:
    """Most of its way is down. False with fewer than three different levels."""
    return rises([-value for value in values])


def _way(values: Sequence[float]) -> list[float]:
    """The steps from part to part; none where it has too few levels."""
    if len(set(values)) < _LEVELS:
        return []
    levels = list(values)
    if len(levels) > _PARTS:
        bounds = [len(levels) * part // _PARTS for part in range(_PARTS + 1)]
        levels = [sum(levels[a:b]) / (b - a) for a, b in pairwise(bounds)]
    steps = [after - before for before, after in pairwise(levels)]
    return steps if any(steps) else []
