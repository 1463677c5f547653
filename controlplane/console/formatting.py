"""Numbers as people read them: with a unit, an age, and a word where there is none.

Unknown is written as such: never 0, never a blank.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number and its unit, apart, so that a column can line the numbers up."""

    number: str
    unit: str

    def __str__(self) -> str:
        return f"{self.number} {self.unit}".strip()


def duration(seconds: float | None) -> Quantity | None:
    """Three digits that matter, in the unit that needs no leading zeros."""
    if seconds is None:
        return None
    milliseconds = seconds * 1000
    if abs(milliseconds) < 0.0005:
        return Quantity("0", "ms")
    if abs(milliseconds) < 9.995:
        return Quantity(
            f"{milliseconds:.2g}" if milliseconds < 0.1 else f"{milliseconds:.1f}", "ms"
        )
    if abs(milliseconds) < 999.5:
        return Quantity(f"{milliseconds:.0f}", "ms")
    if seconds < 99.95:
        return Quantity(f"{seconds:.2f}" if seconds < 9.995 else f"{seconds:.1f}", "s")
    minutes, rest = divmod(round(seconds), 60)
    return Quantity(f"{minutes} min {rest:02d}", "s")


def rate(per_second: float | None) -> Quantity | None:
    """Requests per second."""
    if per_second is None:
        return None
    digits = 2 if per_second < 1 else 1
    return Quantity(f"{per_second:,.{digits}f}", "req/s")


def share(value: float | None) -> Quantity | None:
    """A share as a percentage; 100 % only when nothing is missing."""
    if value is None:
        return None
    percent = value * 100
    if 99.5 <= percent < 100:
        return Quantity(f"{min(percent, 99.99):.2f}", "%")
    return Quantity(f"{percent:.0f}" if percent >= 10 or percent == 0 else f"{percent:.1f}", "%")


def budget_share(value: float | None) -> Quantity | None:
    """What is left of an error budget; below zero where more was spent than there was. 100 % only
    when nothing is missing."""
    if value is None:
        return None
    percent = value * 100
    if 99.95 <= percent < 100:
        return Quantity(f"{min(percent, 99.99):.2f}", "%")
    return Quantity(f"{percent:,.1f}", "%")


def burn(value: float | None) -> str | None:
    """Times the pace at which a budget lasts exactly its period. Not 0 where anything burns."""
    if value is None:
        return None
    return "<0.1" if 0 < value < 0.05 else f"{value:,.1f}"


def count(value: int | None) -> str | None:
    """With thousands separated."""
    return None if value is None else f"{value:,}"


def size(num_bytes: int | None) -> Quantity | None:
    """Bytes in the largest unit of 1,024 that leaves a digit before the point."""
    if num_bytes is None:
        return None
    value, unit = float(num_bytes), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024:
            break
        value, unit = value / 1024, larger
    digits = 0 if unit == "B" or value >= 99.95 else 1
    return Quantity(f"{value:,.{digits}f}", unit)


def money(amount: float, currency: str | None) -> Quantity:
    """Two digits behind the point, or, of what is below one, two that matter."""
    number = f"{amount:,.2f}" if amount == 0 or abs(amount) >= 1 else _significant(amount)
    return Quantity(number, currency or "")


def _significant(amount: float) -> str:
    digits = max(2, 1 - math.floor(math.log10(abs(amount))))
    return f"{amount:.{digits}f}" if digits <= 8 else f"{amount:.1e}"


def amount_of(value: float | None) -> str | None:
    """One digit behind the point below a thousand, none above."""
    return None if value is None else f"{value:,.{1 if abs(value) < 1000 else 0}f}"


def instant(unix_ns: int) -> datetime:
    """UTC."""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC)


def clock_time(unix_ns: int, now_unix_ns: int) -> str:
    """`17:02:41`, with the date when it is another day than now."""
    then, now = instant(unix_ns), instant(now_unix_ns)
    pattern = "%H:%M:%S" if then.date() == now.date() else "%Y-%m-%d %H:%M:%S"
    return then.strftime(pattern)


def exact_time(unix_ns: int) -> str:
    """ISO 8601 with milliseconds, for titles and the `datetime` attribute."""
    return instant(unix_ns).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def short_id(identifier: str) -> str:
    """The beginning of an id, enough to tell it from its neighbours."""
    return identifier if len(identifier) <= 12 else identifier[:10]


_START_ORDER = ("acquire", "load", "compile", "warm_up")


def in_start_order(stages: Mapping[str, float]) -> list[tuple[str, float]]:
    """Seconds by stage of a start, in the order in which the stages come."""
    known = [name for name in _START_ORDER if name in stages]
    return [(name, stages[name]) for name in (*known, *sorted(set(stages) - set(known)))]


def tail(text: str, length: int) -> str:
    """The end of a long name: what tells it from its neighbours stands there."""
    return text if len(text) <= length else "…" + text[1 - length :]
