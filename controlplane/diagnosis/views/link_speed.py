"""Speeds of links, in whatever unit somebody wrote them down."""

import re

from controlplane.diagnosis.fact import Fact
from controlplane.diagnosis.views.told import number_of, plain
from dataplane.engine_metrics.signal import Unit

_GIGABIT = 1e9 / 8
_PLAINLY_BYTES = 1e6
"""A second: a number above it is in bytes already, whatever the key says."""


def bytes_per_second(fact: Fact) -> float | None:
    """Bits are told by their name; None where it is no speed of a link."""
    value = number_of(fact)
    if value is None or value <= 0:
        return None
    if fact.unit is Unit.BYTES_PER_SECOND:
        return value
    text = f"{plain(fact.key)} {fact.raw.lower()}"
    if re.search(r"gbit|gbps\b|\bgb e\b|\d ?gbe\b|gigabit", text):
        return value * _GIGABIT
    if re.search(r"mbit|mbps\b|megabit", text):
        return value * _GIGABIT / 1000
    if re.search(r"(gb|gib|gigabytes?)( ?per)? ?/?s\b", text):
        return value if value > _PLAINLY_BYTES else value * 1e9
    if re.search(r"(mb|mib)( ?per)? ?/?s\b", text):
        return value if value > _PLAINLY_BYTES else value * 1e6
    return None
