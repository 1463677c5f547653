"""When each grade should fire, worked out from every single request. Imports nothing of ours.

Written from the published arithmetic alone, so that it can contradict the implementations:

    factor = share of the budget * period / long window        (at least 1: see below)
    fires    while bad / all of the long window and of the short one are both over
             factor * (1 - target), and the long window has ten requests

A factor below 1 never spends the budget, so 1 is the least (a week's slow ticket would have 0.98).
A grade of which factor * (1 - target) reaches 1 can never fire.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60
_WINDOWS = {
    "page_quick": (_HOUR, 5 * _MINUTE),
    "page_slow": (6 * _HOUR, 30 * _MINUTE),
    "ticket_quick": (_DAY, 2 * _HOUR),
    "ticket_slow": (3 * _DAY, 6 * _HOUR),
}
_SHARES: Mapping[int, Mapping[str, int | Fraction]] = {
    30: {"page_quick": 2, "page_slow": 5, "ticket_quick": 10, "ticket_slow": 10},
    7: {"page_quick": 8, "page_slow": Fraction(25, 2), "ticket_quick": 20, "ticket_slow": 42},
}
"""In percent of the budget, by days of the period."""
_ENOUGH = 10

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """One objective."""

    target: str
    """Decimal: 0.999."""
    days: int
    """Of the budget: 30 or 7."""

    @property
    def name(self) -> str:
        """As in a table: 99.9 % of 30 d."""
        return f"{float(self.target) * 100:g} % of {self.days} d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """When a grade fired, in seconds since the first request."""

    first: int
    last: int
    """The last moment at which it still did."""
    is_one_stretch: bool


def should_fire(total: Counts, bad: Counts, promised: Promised) -> Mapping[str, Fired]:
    """By grade; those that stay silent are absent. `total` and `bad`: how many requests had ended
    before each second, from 0 on."""
    found = {}
    for grade, (long, short) in _WINDOWS.items():
        limit = _limit(grade, promised)
        if limit >= 1:
            continue
        fires = _is_over(total, bad, long, limit) & _is_over(total, bad, short, limit)
        fires &= _last(total, long) >= _ENOUGH
        moments = np.flatnonzero(fires)
        if len(moments):
            first, last = int(moments[0]), int(moments[-1])
            found[grade] = Fired(
                first=first, last=last, is_one_stretch=last - first + 1 == len(moments)
            )
    return found


def _limit(grade: str, promised: Promised) -> Fraction:
    share = Fraction(_SHARES[promised.days][grade]) / 100
    factor = share * promised.days * _DAY / _WINDOWS[grade][0]
    return max(Fraction(1), factor) * (1 - Fraction(promised.target))


def _is_over(total: Counts, bad: Counts, seconds: int, limit: Fraction) -> npt.NDArray[np.bool_]:
    """Strictly: where nothing was asked, nothing is over."""
    return _last(bad, seconds) * limit.denominator > _last(total, seconds) * limit.numerator


def _last(ended: Counts, seconds: int) -> Counts:
    before = np.concatenate([np.zeros(min(seconds, len(ended)), dtype=np.int64), ended])
    found: Counts = ended - before[: len(ended)]
    return found
