"""A plan is committed once or abandoned, and nothing in between."""

import pytest

from dataplane.scheduling.scheduler import (
    SchedulerError,
)
from tests.dataplane.scheduling.stepping import a_scheduler, add, step, unique_prompt


def test_a_plan_is_committed_once_and_before_the_next() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, (1, 2))
    plan = scheduler.schedule()
    with pytest.raises(SchedulerError, match="was not committed"):
        scheduler.schedule()
    scheduler.commit(plan, {1: 5})
    with pytest.raises(SchedulerError, match="not in flight"):
        scheduler.commit(plan, {1: 5})


def test_an_abandoned_step_advances_nothing_and_is_chosen_again() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 6))
    failed = scheduler.schedule()
    scheduler.abandon(failed)
    scheduler.check_integrity()
    assert sequence.num_computed_tokens == 0
    with pytest.raises(SchedulerError, match="not in flight"):
        scheduler.commit(failed, {1: 5})
    retried = step(scheduler)
    assert [(c.start, c.num_tokens) for c in retried.chunks] == [(0, 6)]
    assert sequence.num_output_tokens == 1


def test_a_block_that_an_abandoned_step_began_is_begun_by_the_next() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 8))
    step(scheduler)
    for _ in range(2):
        scheduler.abandon(scheduler.schedule())
        assert len(sequence.block_table) == 3
    step(scheduler)
    assert (len(sequence.block_table), sequence.num_computed_tokens) == (3, 9)


def test_blocks_of_an_abandoned_step_come_back() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, unique_prompt(1, 6))
    scheduler.abandon(scheduler.schedule())
    scheduler.finish("r1")
    scheduler.retire()
    assert scheduler.stats.num_referenced_blocks == 0


@pytest.mark.parametrize("selected", [{}, {1: 5, 2: 6}, {2: 6}])
def test_tokens_for_the_wrong_sequences_change_nothing(selected: dict[int, int]) -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, (1, 2))
    plan = scheduler.schedule()
    with pytest.raises(SchedulerError, match=r"expected for \[1\]"):
        scheduler.commit(plan, selected)
    assert sequence.num_computed_tokens == 0
    scheduler.commit(plan, {1: 5})
    assert sequence.output_token_ids == [5]


def test_an_unfinished_prompt_selects_nothing() -> None:
    scheduler = a_scheduler(prompt_budget=4)
    sequence = add(scheduler, 1, unique_prompt(1, 6))
    plan = scheduler.schedule()
    assert [c.selects_token for c in plan.chunks] == [False]
    with pytest.raises(SchedulerError, match=r"expected for \[\]"):
        scheduler.commit(plan, {1: 5})
    scheduler.commit(plan, {})
    assert [c.selects_token for c in scheduler.schedule().chunks] == [True]
    assert sequence.num_computed_tokens == 4


def test_a_block_that_a_sequence_lost_is_reported() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 8))
    step(scheduler)
    sequence.block_table.pop()
    with pytest.raises(AssertionError, match="1, expected 0"):
        scheduler.check_integrity()
