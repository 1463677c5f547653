"""How fast an error budget is spent, and what is left of it. Pure arithmetic over counts.

    burn rate = error ratio / (1 - target)

At 1 the budget lasts exactly its period; at 14.4 one hour spends 2 % of a budget of 30 days. The
targets are decimal, so that 99.9 % leaves exactly 0.001.
"""

from decimal import Decimal

from controlplane.slo.event_counts import EventCounts


def budget_of(target: float) -> Decimal:
    """The share of requests that may miss an objective: `1 - target`."""
    return 1 - Decimal(repr(target))


def shortest(value: Decimal | float) -> str:
    """The shortest form that is exact: 0.001, and never 0.0009999999999999432."""
    text = f"{value if isinstance(value, Decimal) else Decimal(repr(value)):f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def percent(target: float) -> str:
    """A target for people, unrounded: 99.99 % is not 100 %."""
    return f"{shortest(Decimal(repr(target)) * 100)} %"


def burn_rate(counts: EventCounts, target: float) -> float | None:
    """None where nothing was judged, which is neither a burn of 0 nor one of anything else."""
    ratio = counts.error_ratio
    return None if ratio is None else ratio / float(budget_of(target))


def remaining_share(counts: EventCounts, target: float) -> float | None:
    """Of the budget of the time in which `counts` were counted: 1 untouched, 0 spent, below 0
    overspent. None where nothing was judged."""
    burn = burn_rate(counts, target)
    return None if burn is None else 1 - burn


def seconds_to_exhaustion(
    burn: float, period_seconds: float, remaining: float = 1.0
) -> float | None:
    """How long `remaining` of the budget lasts at this burn; None: it is not spent at all."""
    if burn <= 0:
        return None
    return max(0.0, remaining) * period_seconds / burn
