"""Sizes, times and numbers as log lines write them, in bytes, seconds and floats."""

import re

_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
"""Allocators, kernels and engines all count in powers of two, also where they write GB."""
_SIZE = re.compile(r"^\s*(-?[\d.,]+(?:e[+-]?\d+)?)\s*([kmgt]?)i?(?:b|bytes?)?\s*$", re.IGNORECASE)
_SPAN = re.compile(
    r"(\d[\d.,]*)\s*(ns|us|µs|ms|min|m|h|d|s|secs?|seconds?|minutes?|hours?)?(?![a-z])"
)
_CLOCKED = re.compile(r"(\d{1,4}):(\d{2}):(\d{2}(?:\.\d+)?)")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "secs": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
}


def number_of(text: str) -> float | None:
    """`76,640` and `1_024` as they are meant; None where it is no finite number."""
    try:
        value = float(text)
    except ValueError:
        try:
            value = float(text.strip().rstrip(".,").replace(",", "").replace("_", ""))
        except ValueError:
            return None
    return value if abs(value) < float("inf") else None


def bytes_of(text: str) -> float | None:
    """`2.00 GiB`, `19.8557 GB`, `11.4G`, `6291456kB` and plain bytes; None for anything else."""
    found = _SIZE.match(text)
    if found is None:
        return None
    value = number_of(found[1])
    return None if value is None else value * _BYTES[found[2].lower()]


def seconds_of(text: str) -> float | None:
    """`22 secs`, `12454.58 ms`, `2min 45.760s`, `9.214338021s`, `00:13:50`; a bare number is
    seconds."""
    clocked = _CLOCKED.fullmatch(text.strip())
    if clocked is not None:
        return int(clocked[1]) * 3600.0 + int(clocked[2]) * 60.0 + float(clocked[3])
    spans = _SPAN.findall(text.strip().lower())
    if not spans:
        return None
    total = 0.0
    for amount, unit in spans:
        value = number_of(amount)
        if value is None:
            return None
        total += value * _SECONDS.get(unit, 1.0)
    return total
