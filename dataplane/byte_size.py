"""Sizes as people write them in settings: `512MiB`."""

import re
from typing import Any

_UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(B|KiB|MiB|GiB)")


def parse_size(value: Any) -> int:
    """Bytes of a size such as 512MiB. Raises ValueError."""
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is no size; write a number and a unit, such as 512MiB or 2GiB")
    size = int(float(match[1]) * _UNITS[match[2]])
    if size < 1:
        raise ValueError(f"{value!r} holds nothing; give at least 1B")
    return size
