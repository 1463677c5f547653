"""How a budget went: what was left of it at the end of every step of a time. Pure.

A budget is of a rolling period, so each step brings its own requests into it and takes those out
that are a period older:

    counts at the end of a step = counts before the first + what came in by then - what went out
"""

from collections.abc import Sequence
from itertools import accumulate

from controlplane.slo.burn_rate import remaining_share
from controlplane.slo.event_counts import EventCounts


def budget_course(
    before: EventCounts,
    came_in: Sequence[EventCounts],
    went_out: Sequence[EventCounts],
    target: float,
) -> list[float | None]:
    """Shares left, as `remaining_share` has them; None where the period held nothing judged.

    `before`: of the period that ends where the first step begins. `came_in` and `went_out`: of
    each step, and of the same step a period earlier; as many of these as of those.
    """
    entered = accumulate(came_in, initial=before)
    next(entered)
    left = accumulate(went_out)
    return [
        remaining_share(
            EventCounts(good=inside.good - gone.good, total=inside.total - gone.total), target
        )
        for inside, gone in zip(entered, left, strict=True)
    ]
