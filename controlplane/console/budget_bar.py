"""An error budget as a bar and in words: what is left of it, and how much of its period the counts
cover. Pure; templates only draw."""

from dataclasses import dataclass

from controlplane.api.quantities import age
from controlplane.api.slo_views import StandingView
from controlplane.console.formatting import budget_share, burn

WIDTH = 100.0
_DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetBar:
    """Of one promise; lengths are shares of WIDTH."""

    left: float
    """0 where nothing is left, or more was spent than there was."""
    is_overspent: bool
    covered: float | None
    """Of the period; None: it is not known since when there are counts."""
    words: str
    """All of it, for who does not see it."""
    covered_words: str
    """Empty where the whole period is covered."""


def draw_budget(standing: StandingView) -> BudgetBar | None:
    """None: nothing was judged, so that nobody knows what is left."""
    remaining = standing.budget_remaining
    if remaining is None:
        return None
    covered = standing.covered_seconds
    share = None if covered is None else min(1.0, covered / standing.period_seconds)
    part = "" if share == 1 else _covered_words(standing)
    words = f"{budget_share(remaining)} left" + (f"; {part}" if part else "")
    return BudgetBar(
        left=round(WIDTH * min(1.0, max(0.0, remaining)), 2),
        is_overspent=remaining < 0,
        covered=None if share is None else round(WIDTH * share, 2),
        words=words,
        covered_words=part,
    )


def _covered_words(standing: StandingView) -> str:
    period = f"{standing.period_seconds / _DAY:g} d"
    if standing.covered_seconds is None:
        return f"unknown how much of {period} is counted"
    return f"{age(standing.covered_seconds)} of {period} counted"


def how_it_stands(standing: StandingView) -> str:
    """For people: `burns at 12.3 times the pace that it bears over 1h, 61.0 % is left`."""
    rate = burn(next((each.burn_rate for each in standing.burns if each.window == "1h"), None))
    pace = "an unknown rate" if rate is None else f"{rate} times the pace that it bears"
    left = budget_share(standing.budget_remaining)
    remaining = "what is left is unknown" if left is None else f"{left} is left"
    return f"burns at {pace} over 1h, {remaining}"
