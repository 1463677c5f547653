"""Looking for cyclic garbage less often while a simulation runs.

It makes some hundred objects for each request and drops them again, in no cycles: what the
collector would look for is not there. The bound on what a cycle may still hold is some megabytes.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_YOUNG_OBJECTS = 100_000


@contextmanager
def rare_collections() -> Iterator[None]:
    """Within it; behind it the collector is as it was."""
    before = gc.get_threshold()
    if 0 < before[0] < _MAX_YOUNG_OBJECTS:
        gc.set_threshold(_MAX_YOUNG_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
