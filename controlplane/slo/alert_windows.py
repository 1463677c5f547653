"""When a burning budget is worth a page or a ticket: four grades, as data.

A grade names the share of the budget that is spent before it speaks, and the time in which: that
gives its factor. A long window says that the burn is significant, a short one that it still goes
on. Source of the 30-day table: Google's SRE workbook, "Alerting on SLOs", recommended parameters
of multiwindow, multi-burn-rate alerts. Source of the shares for a week: the seven-day example of
Sloth's alert windows.
"""

from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

MINUTE, HOUR, DAY = 60, 3_600, 86_400


class Severity(StrEnum):
    """Who hears of it, and how soon."""

    PAGE = "page"
    TICKET = "ticket"


class GradeName(StrEnum):
    """How urgent a burn is, the most urgent first."""

    PAGE_QUICK = "page_quick"
    """2 % of a budget of 30 days in an hour."""
    PAGE_SLOW = "page_slow"
    """5 % in six hours."""
    TICKET_QUICK = "ticket_quick"
    """10 % in a day."""
    TICKET_SLOW = "ticket_slow"
    """10 % in three days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertGrade:
    """One pair of windows."""

    name: GradeName
    severity: Severity
    budget_share: Decimal
    """Of the whole budget, spent in one long window at the factor."""
    long_seconds: int
    short_seconds: int
    """A twelfth of the long one."""

    def factor(self, period_seconds: float) -> Decimal:
        """The burn rate from which on it fires, for a budget of `period_seconds`: at least 1, since
        a slower burn never spends the budget."""
        exact = self.budget_share * Decimal(repr(period_seconds)) / self.long_seconds
        return max(Decimal(1), exact.quantize(Decimal("0.001")))


def _grades(*shares: str) -> tuple[AlertGrade, ...]:
    severities = (Severity.PAGE, Severity.PAGE, Severity.TICKET, Severity.TICKET)
    windows = ((HOUR, 5 * MINUTE), (6 * HOUR, 30 * MINUTE), (DAY, 2 * HOUR), (3 * DAY, 6 * HOUR))
    return tuple(
        AlertGrade(
            name=name,
            severity=severity,
            budget_share=Decimal(share),
            long_seconds=long,
            short_seconds=short,
        )
        for name, severity, share, (long, short) in zip(
            GradeName, severities, shares, windows, strict=True
        )
    )


MONTH_GRADES = _grades("0.02", "0.05", "0.10", "0.10")
WEEK_GRADES = _grades("0.08", "0.125", "0.20", "0.42")
_MONTH_FROM = 14 * DAY
"""Shorter periods take the shares of a week: an hour is more of them."""

BURN_WINDOWS = (5 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 6 * HOUR, DAY, 3 * DAY)
"""Seconds; all that any grade needs."""


def grades_of(period_seconds: float) -> tuple[AlertGrade, ...]:
    """Those for a budget of `period_seconds`, the most urgent first."""
    return MONTH_GRADES if period_seconds >= _MONTH_FROM else WEEK_GRADES


def short(seconds: int) -> str:
    """As in the names of windows: 5m, 1h, 3d."""
    for unit, size in (("d", DAY), ("h", HOUR), ("m", MINUTE)):
        if seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
