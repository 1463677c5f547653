"""Quantities as people write them: `300ms`, `30d`, `99.9%`, `1/s`, `64MiB`.

A bare number is refused where a unit belongs: nobody should have to remember whether a
deadline of 300 is seconds. Each quantity is written back in one canonical way, so that
`0.3s` and `300ms` are the same document. Arithmetic is decimal: `99.9%` is exactly 0.999.
"""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from controlplane.specs.written import Written
from dataplane.byte_size import parse_size

_SECONDS_BY_UNIT = {
    "d": Decimal(86400),
    "h": Decimal(3600),
    "m": Decimal(60),
    "s": Decimal(1),
    "ms": Decimal("0.001"),
    "us": Decimal("0.000001"),
}
_LONGEST = 3660 * _SECONDS_BY_UNIT["d"]
# Bounded, so that no text can ask for a million digits of arithmetic.
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,9})?)"
_DURATION = re.compile(rf"{_NUMBER}(d|h|ms|us|m|s)")
_PERCENT = re.compile(rf"{_NUMBER}%")
_RATE = re.compile(rf"{_NUMBER}/(s|m|h|d)")


def parse_duration(value: Any) -> float:
    """Seconds. Raises ValueError."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(
            f"{value!r} is not a duration; write a number and a unit (us, ms, s, m, h, d), "
            f"such as 300ms or 30d"
        )
    seconds = Decimal(match[1]) * _SECONDS_BY_UNIT[match[2]]
    if not seconds:
        raise ValueError("a duration must be longer than 0")
    if seconds > _LONGEST:
        raise ValueError(f"{value} is longer than ten years")
    return float(seconds)


def format_duration(seconds: float) -> str:
    """In the largest unit that needs no fraction."""
    exact = Decimal(repr(seconds))
    for unit, size in _SECONDS_BY_UNIT.items():
        if exact % size == 0:
            return f"{int(exact / size)}{unit}"
    return f"{_plain(exact / _SECONDS_BY_UNIT['us'])}us"


def parse_share(value: Any) -> float:
    """A share from 0 to 1, written as a percentage. Raises ValueError."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a percentage; write it as 99% or 99.9%")
    share = Decimal(match[1]) / 100
    if share > 1:
        raise ValueError(f"{value} is more than 100%")
    return float(share)


def parse_target(value: Any) -> float:
    """The share of requests that an objective asks for: above 0 and below 1."""
    share = parse_share(value)
    if share == 1:
        raise ValueError("a target of 100% leaves no error budget; 99.99% is the strictest in use")
    if share == 0:
        raise ValueError("a target of 0% promises nothing; remove the objective")
    return share


def format_share(share: float) -> str:
    """As a percentage."""
    return f"{_plain(Decimal(repr(share)) * 100)}%"


def parse_rate(value: Any) -> float:
    """Per second. Raises ValueError."""
    match = _RATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a rate; write it as 1/s or 10/m (per s, m, h or d)")
    return float(Decimal(match[1]) / _SECONDS_BY_UNIT[match[2]])


def format_rate(per_second: float) -> str:
    """In the shortest unit that needs no rounding."""
    for unit in ("s", "m", "h", "d"):
        number = round(Decimal(repr(per_second)) * _SECONDS_BY_UNIT[unit], 9)
        if float(number / _SECONDS_BY_UNIT[unit]) == per_second and number < 10**12:
            return f"{_plain(number)}/{unit}"
    raise ValueError(f"{per_second} per second cannot be written exactly")


def format_size(num_bytes: int) -> str:
    """In the largest unit that needs no fraction."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if num_bytes % size == 0:
            return f"{num_bytes // size}{unit}"
    return f"{num_bytes}B"


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration),
    Written("duration: a number and one of us, ms, s, m, h, d", "300ms"),
]
"""Seconds; written `300ms`."""

Share = Annotated[
    float,
    BeforeValidator(parse_share),
    PlainSerializer(format_share),
    Written("percentage from 0% to 100%", "5%"),
]
"""0 to 1; written `5%`."""

Target = Annotated[
    float,
    BeforeValidator(parse_target),
    PlainSerializer(format_share),
    Written("percentage above 0% and below 100%", "99.9%"),
]
"""Between 0 and 1, both excluded; written `99.9%`."""

Rate = Annotated[
    float,
    BeforeValidator(parse_rate),
    PlainSerializer(format_rate),
    Written("rate: a number per s, m, h or d", "1/s"),
]
"""Per second; written `1/s`."""

Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size),
    Written("size: a number and one of B, KiB, MiB, GiB", "64MiB"),
]
"""Bytes; written `64MiB`."""
