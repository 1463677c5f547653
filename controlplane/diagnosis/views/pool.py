"""Whether places are one pool, of which each is meant to have as much as the others."""

import re
from collections.abc import Iterable

from controlplane.diagnosis.window import Window

_NUMBERED = re.compile(r"[a-z]?\d*|.*\d.*", re.IGNORECASE)
"""A letter, or a name with a number: one of several."""
_COMMON = 3
"""Letters at the beginning."""
_APART = (
    r"canary|\bweight(s|ed)?\b.*\d|shadow|mirror|traffic split|blue.?green|standby|\bspare\b"
    r"|drain(ed|ing)?\b"
)


def are_one_pool(window: Window, names: Iterable[str]) -> bool:
    """Their names differ in a number or an end alone, and nobody gave them different weights."""
    told = [re.sub(r"^\* ?", "", name) for name in names]
    is_numbered = all(_NUMBERED.fullmatch(name) for name in told)
    is_common = len({name[:_COMMON] for name in told}) == 1
    return (is_numbered or is_common) and not window.changes_with(_APART)
