"""A number of a metrics page as a person would write it."""

import math
from decimal import Decimal

_EXACT_BELOW = 1e17
_DIGITS = 6


def plain_number(value: float) -> str:
    """`371`, `0.993`, `1354840`: no exponent, no `.0`, six significant digits of a fraction."""
    if not math.isfinite(value):
        return repr(value)
    if value == round(value) and abs(value) < _EXACT_BELOW:
        return str(round(value))
    digits = max(_DIGITS, len(str(int(abs(value)))) + 1)
    return format(Decimal(f"{value:.{digits}g}").normalize(), "f")
