"""What was left of a budget, step by step."""

from random import Random

import pytest

from controlplane.slo.budget_course import budget_course
from controlplane.slo.burn_rate import remaining_share
from controlplane.slo.event_counts import NO_EVENTS, EventCounts

PERIOD = 50
"""Steps."""


def some(random: Random) -> EventCounts:
    total = random.randrange(20)
    return EventCounts(good=random.randrange(total + 1), total=total)


def test_each_step_has_what_a_sum_over_its_own_period_has() -> None:
    random = Random(3)
    steps = [some(random) for _ in range(PERIOD + 20)]
    course = budget_course(
        sum(steps[:PERIOD], NO_EVENTS), steps[PERIOD:], steps[: len(steps) - PERIOD], 0.9
    )
    for number, left in enumerate(course, start=1):
        period = sum(steps[number : number + PERIOD], NO_EVENTS)
        assert left == pytest.approx(remaining_share(period, 0.9))


def test_a_budget_comes_back_when_what_spent_it_is_a_period_old() -> None:
    bad, good = EventCounts(good=0, total=1), EventCounts(good=99, total=99)
    assert budget_course(
        bad + good, [NO_EVENTS, NO_EVENTS, NO_EVENTS], [NO_EVENTS, bad, good], 0.99
    ) == [pytest.approx(0), 1.0, None]


def test_before_anything_was_judged_nobody_knows() -> None:
    good = EventCounts(good=4, total=4)
    assert budget_course(NO_EVENTS, [NO_EVENTS, good], [NO_EVENTS, NO_EVENTS], 0.99) == [None, 1.0]
