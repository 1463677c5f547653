"""Amounts of memory as texts have them, so that findings cite what stands there."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.diagnosis.citing import number

KIB, MIB, GIB = 1024.0, 1024.0**2, 1024.0**3

_FACTORS = {"": 1.0, "k": KIB, "m": MIB, "g": GIB, "t": 1024.0**4}
_AMOUNT = re.compile(r"(?<![\w.])(\d[\d,]*(?:\.\d+)?)\s?([kmgt])i?b?\b", re.IGNORECASE)
_IN_LINE = 0.005
"""Share by which a field may differ from the same figure in its line: that is rounded."""


@dataclass(frozen=True, slots=True)
class Amount:
    """So many bytes, and how its source writes that."""

    size: float
    raw: str

    @property
    def rounded_by(self) -> float:
        """At most, by the digits that it was written with."""
        found = _AMOUNT.search(self.raw)
        if found is None:
            return 0.5
        digits = len(found[1].partition(".")[2])
        return 0.5 * _FACTORS[found[2].lower()] / 10.0**digits


def amounts_in(text: str) -> tuple[Amount, ...]:
    """All amounts with a unit, in their order. Allocators and engines count in powers of two, also
    where they write GB."""
    return tuple(
        Amount(float(found[1].replace(",", "")) * _FACTORS[found[2].lower()], found[0])
        for found in _AMOUNT.finditer(text)
    )


def as_written(size: float, texts: Iterable[str]) -> Amount:
    """`size` as one of `texts` writes it, or as we do where none has it."""
    known = tuple(texts)
    exact = f"{size:.0f}"
    if any(re.search(rf"(?<!\d){exact}(?!\d)", text) for text in known):
        return Amount(size, f"{exact} bytes")
    near = min(
        (amount for text in known for amount in amounts_in(text)),
        key=lambda amount: abs(amount.size - size),
        default=None,
    )
    if near is not None and abs(near.size - size) <= _IN_LINE * max(abs(size), 1.0):
        return Amount(size, near.raw)
    return Amount(size, written(size))


def written(size: float) -> str:
    """`12.01 GiB`, `136 MiB`."""
    if abs(size) >= GIB:
        return f"{size / GIB:.2f} GiB"
    return f"{number(round(size / MIB, 2))} MiB"
