"""Which grades an objective can have, and which of them fire. Pure.

A grade whose factor is above the highest burn that the target allows can never fire: at 90 %
fourteen times the budget is more than every request. One that looks back for longer than the
budget's period is of several budgets. Both are left out, and said, since an alert that is there and
cannot speak is worse than none. A contract may turn grades off as well, and say how many requests
are enough to judge by.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal

from controlplane.slo.alert_windows import AlertGrade, GradeName, grades_of, short
from controlplane.slo.burn_rate import budget_of, burn_rate, shortest
from controlplane.slo.event_counts import EventCounts

CountsOver = Callable[[int], EventCounts]
"""The counts of the last so many seconds."""

DEFAULT_MIN_EVENTS = 10
"""In the long window: of three requests one that fails is no trend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTerms:
    """What a contract says of its alerts."""

    min_events: int = DEFAULT_MIN_EVENTS
    """Requests in the long window below which no grade fires."""
    off: frozenset[GradeName] = frozenset()
    """Grades that nobody wants."""
    team: str | None = None
    """Whose alerts they are; None: it does not say."""


DEFAULT_TERMS = AlertTerms()
"""Of a contract that says nothing of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """From which error ratio on a grade fires, for one target and period."""

    grade: AlertGrade
    factor: Decimal
    error_ratio: Decimal
    """factor * (1 - target); from 1 on no outage would fire it."""
    why_left_out: str | None = None
    """None where it can fire, means something and is wanted."""
    is_off: bool = False
    """It is left out because the contract turns it off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """A grade that fires, and both burns that say so."""

    threshold: Threshold
    long_burn: float
    short_burn: float


def thresholds(
    target: float, period_seconds: float, terms: AlertTerms = DEFAULT_TERMS
) -> tuple[Threshold, ...]:
    """Of all grades, those that are left out too."""
    return tuple(
        _threshold(grade, target, period_seconds, terms) for grade in grades_of(period_seconds)
    )


def left_out(
    target: float, period_seconds: float, terms: AlertTerms = DEFAULT_TERMS
) -> Iterator[str]:
    """A sentence for each grade that is left out."""
    for each in thresholds(target, period_seconds, terms):
        if each.why_left_out is not None:
            yield each.why_left_out


def _threshold(
    grade: AlertGrade, target: float, period_seconds: float, terms: AlertTerms
) -> Threshold:
    budget, factor = budget_of(target), grade.factor(period_seconds)
    why = None
    is_off = grade.name in terms.off
    if is_off:
        why = f"no {grade.name} alert: the contract turns it off"
    elif factor * budget >= 1:
        why = (
            f"no {grade.name} alert, which could never fire: {shortest(factor)} times a budget of "
            f"{shortest(budget)} is {shortest(factor * budget)}, and at most every request can be "
            "bad"
        )
    elif grade.long_seconds > period_seconds:
        why = (
            f"no {grade.name} alert: it looks back for {short(grade.long_seconds)}, which is "
            "longer than the contract's window"
        )
    return Threshold(
        grade=grade,
        factor=factor,
        error_ratio=factor * budget,
        why_left_out=why,
        is_off=is_off,
    )


def firing(
    counts_over: CountsOver,
    target: float,
    period_seconds: float,
    terms: AlertTerms = DEFAULT_TERMS,
) -> tuple[Firing, ...]:
    """Grades whose long and short window both burn faster than their factor, the most urgent
    first. Fewer than the terms' `min_events` in the long window fire nothing."""
    fires = (
        _fires(each, counts_over, target, terms)
        for each in thresholds(target, period_seconds, terms)
        if each.why_left_out is None
    )
    return tuple(each for each in fires if each is not None)


def _fires(
    threshold: Threshold, counts_over: CountsOver, target: float, terms: AlertTerms
) -> Firing | None:
    long = counts_over(threshold.grade.long_seconds)
    brief = counts_over(threshold.grade.short_seconds)
    long_burn, short_burn = burn_rate(long, target), burn_rate(brief, target)
    if long_burn is None or short_burn is None or long.total < terms.min_events:
        return None
    # Of counts, since a burn rate is rounded: one of exactly the factor does not fire.
    if any(each.bad <= threshold.error_ratio * each.total for each in (long, brief)):
        return None
    return Firing(threshold=threshold, long_burn=long_burn, short_burn=short_burn)
