"""Decimals as whole numbers: a simulation that counts in tenths never meets 0.1 + 0.2.

A `Timeline` and a cost model that hold integers round nothing. So everything that is written
with a decimal point is multiplied by one power of ten before, and divided by it at the end.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class DecimalScale:
    """One unit is 10 ** num_decimals ticks."""

    num_decimals: int

    @classmethod
    def of(cls, values: Iterable[Decimal]) -> "DecimalScale":
        """The smallest scale in which all `values`, which are finite, are whole."""
        return cls(max((-_parts(value)[1] for value in values), default=0))

    def ticks(self, value: Decimal) -> int:
        """Raises ValueError for a value that is not whole in this scale."""
        digits, exponent = _parts(value)
        if exponent < -self.num_decimals:
            raise ValueError(f"{value} has more than {self.num_decimals} decimals")
        return digits * int(10 ** (exponent + self.num_decimals))

    def number(self, ticks: int) -> int | float:
        """In units: whole where it is whole, else the nearest float."""
        one = int(10**self.num_decimals)
        whole, rest = divmod(ticks, one)
        return ticks / one if rest else whole

    def text(self, ticks: int) -> str:
        """In units, with every digit and none to spare: 12.4, 8."""
        if not self.num_decimals:
            return str(ticks)
        sign = "-" if ticks < 0 else ""
        digits = str(abs(ticks)).rjust(self.num_decimals + 1, "0")
        whole, decimals = digits[: -self.num_decimals], digits[-self.num_decimals :].rstrip("0")
        return f"{sign}{whole}.{decimals}" if decimals else f"{sign}{whole}"


def _parts(value: Decimal) -> tuple[int, int]:
    """(digits, exponent) with value = digits * 10 ** exponent, digits without trailing zeros.

    By hand, because arithmetic of decimals rounds to the digits of its context.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is no finite number")
    number = int("".join(map(str, digits)))
    if number == 0:
        return 0, 0
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    return -number if sign else number, exponent
