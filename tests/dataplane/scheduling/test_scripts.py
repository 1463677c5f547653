"""Sequences whose tokens are known beforehand."""

import pytest

from dataplane.scheduling.scheduler import (
    Scheduler,
    SchedulerError,
)
from dataplane.scheduling.sequence import Sequence
from tests.dataplane.scheduling.stepping import a_scheduler, add, unique_prompt


def add_scripted(scheduler: Scheduler, sequence_id: int, length: int, prompt: int = 4) -> Sequence:
    sequence = Sequence(
        request_id=f"r{sequence_id}",
        sequence_id=sequence_id,
        prompt_token_ids=unique_prompt(sequence_id, prompt),
        max_output_tokens=16,
        script=range(length),
    )
    assert scheduler.add(sequence) is None
    return sequence


def test_a_script_is_selected_without_being_told() -> None:
    scheduler = a_scheduler()
    sequence = add_scripted(scheduler, 1, 3)
    complete = [scheduler.commit(scheduler.schedule()) for _ in range(3)]
    assert complete == [[], [], [sequence]]
    assert sequence.output_token_ids == [0, 1, 2]


def test_those_that_end_together_are_told_oldest_first() -> None:
    scheduler = a_scheduler()
    first = add(scheduler, 1, unique_prompt(1, 4), max_output=2)
    second = add_scripted(scheduler, 2, 2)
    scheduler.commit(scheduler.schedule(), {1: 5, 2: 0})
    third = add_scripted(scheduler, 3, 1)
    assert scheduler.commit(scheduler.schedule(), {1: 5, 2: 1, 3: 0}) == [first, second, third]


def test_a_step_of_a_sequence_without_a_script_must_be_told() -> None:
    scheduler = a_scheduler()
    add_scripted(scheduler, 1, 3)
    sequence = add(scheduler, 2, unique_prompt(2, 4))
    for _ in range(2):  # while it is apart, and once it decodes with the others
        plan = scheduler.schedule()
        with pytest.raises(SchedulerError, match="sequence 2 has no script"):
            scheduler.commit(plan)
        scheduler.commit(plan, {1: sequence.num_output_tokens, 2: 9})
        scheduler.check_integrity()
    assert sequence.output_token_ids == [9, 9]


def test_another_token_than_the_script_says_changes_nothing() -> None:
    scheduler = a_scheduler()
    sequence = add_scripted(scheduler, 1, 3)
    plan = scheduler.schedule()
    with pytest.raises(SchedulerError, match=r"token 7 .* sequence 1, whose script says 0"):
        scheduler.commit(plan, {1: 7})
    assert (sequence.num_computed_tokens, sequence.output_token_ids) == (0, [])
    scheduler.commit(plan, {1: 0})
    assert sequence.output_token_ids == [0]


def test_a_plan_says_later_what_it_was_when_it_was_scheduled() -> None:
    scheduler = a_scheduler()
    first, second = add_scripted(scheduler, 1, 4), add_scripted(scheduler, 2, 9)
    scheduler.commit(scheduler.schedule())
    plan = scheduler.schedule()
    scheduler.commit(plan)
    third = add_scripted(scheduler, 3, 9)
    while not first.is_finished:
        scheduler.commit(scheduler.schedule())
    scheduler.finish_sequence(2)
    assert [(c.sequence, c.start, c.num_tokens) for c in plan.chunks] == [
        (first, 4, 1),
        (second, 4, 1),
    ]
    assert (plan.is_empty, plan.prefill_chunks, plan.num_context_tokens) == (False, (), 10)
    assert third.is_decoding
