"""Sequences that come with the KV of their prompt, and those whose KV somebody else reads."""

import pytest

from dataplane.scheduling.errors import SchedulerError
from dataplane.scheduling.sequence import Sequence
from tests.dataplane.scheduling.stepping import (
    a_scheduler,
    add,
    commit,
    drain,
    step,
    unique_prompt,
)


def handed_over(
    sequence_id: int, prompt: tuple[int, ...], max_output: int = 6, num_selected: int = 1
) -> Sequence:
    first = 100 + len(prompt)  # as the other tests select
    return Sequence(
        request_id=f"r{sequence_id}",
        sequence_id=sequence_id,
        prompt_token_ids=prompt,
        max_output_tokens=max_output,
        script=range(first, first + max_output),
        num_handed_over_tokens=num_selected,
    )


def test_it_decodes_in_its_first_step_and_takes_the_blocks_of_its_prompt() -> None:
    scheduler = a_scheduler(prompt_budget=1)
    sequence = handed_over(1, unique_prompt(1, 10))
    assert scheduler.add(sequence) is None
    plan = scheduler.schedule()
    [chunk] = plan.chunks
    assert (chunk.start, chunk.num_tokens, chunk.is_prefill) == (10, 1, False)
    assert (plan.num_prompt_tokens, plan.num_decode_steps, plan.num_context_tokens) == (0, 1, 11)
    assert plan.admitted == (sequence,)
    assert scheduler.stats.num_referenced_blocks == 3
    commit(scheduler, plan)
    assert sequence.num_output_tokens == 2
    assert sequence.num_cached_tokens == 10
    assert scheduler.stats.num_prefix_query_tokens == 0


def test_it_ends_with_as_many_tokens_as_if_one_engine_had_done_it_all() -> None:
    scheduler = a_scheduler()
    sequence = handed_over(1, unique_prompt(1, 10), max_output=6, num_selected=2)
    scheduler.add(sequence)
    plans = drain(scheduler)
    assert sequence.output_token_ids == [110, 111, 112, 113, 114, 115]
    assert sum(plan.num_decode_steps for plan in plans) == 4


def test_what_it_brought_is_found_by_the_next_with_the_same_beginning() -> None:
    scheduler = a_scheduler()
    scheduler.add(handed_over(1, unique_prompt(1, 10)))
    step(scheduler)
    other = add(scheduler, 2, unique_prompt(1, 10))
    step(scheduler)
    assert other.num_cached_tokens == 8


def test_it_shares_the_blocks_that_are_there_already() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, unique_prompt(1, 10))
    step(scheduler)
    scheduler.add(handed_over(2, unique_prompt(1, 10)))
    step(scheduler)
    assert scheduler.stats.num_referenced_blocks == 4  # two of both, and one each
    assert scheduler.stats.num_running == 2


def test_it_waits_for_blocks_and_slots_as_any_other() -> None:
    scheduler = a_scheduler(num_blocks=4, slots=2)
    add(scheduler, 1, unique_prompt(1, 9))
    step(scheduler)
    scheduler.add(handed_over(2, unique_prompt(2, 5)))
    assert step(scheduler).deferred_on == "blocks"
    scheduler.finish_sequence(1)
    assert len(step(scheduler).admitted) == 1


def test_one_that_is_preempted_has_lost_what_it_brought() -> None:
    scheduler = a_scheduler(num_blocks=6, slots=2, caching=False)
    first, second = handed_over(1, unique_prompt(1, 8), 12), handed_over(2, unique_prompt(2, 7), 12)
    for sequence in (first, second):
        scheduler.add(sequence)
    plans = drain(scheduler)
    assert second.num_preemptions == 1
    assert sum(plan.num_prompt_tokens for plan in plans) >= 7
    assert (first.num_output_tokens, second.num_output_tokens) == (12, 12)


@pytest.mark.parametrize("num_selected", [6, 7])
def test_one_of_which_nothing_is_left_to_select_is_refused(num_selected: int) -> None:
    with pytest.raises(ValueError, match="some must be left"):
        handed_over(1, (1, 2), max_output=6, num_selected=num_selected)


def test_all_that_was_selected_must_be_handed_over() -> None:
    with pytest.raises(ValueError, match="1 tokens are handed over, of 2 selected"):
        Sequence(
            request_id="r",
            sequence_id=1,
            prompt_token_ids=(1, 2),
            max_output_tokens=9,
            output_token_ids=[3, 4],
            num_handed_over_tokens=1,
        )


def test_what_is_held_keeps_its_blocks_and_is_no_work() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, unique_prompt(1, 10), max_output=1)
    step(scheduler)
    assert sequence.is_finished
    scheduler.hold(1)
    plan = step(scheduler)
    assert (plan.released, plan.is_empty) == ((), True)
    assert not scheduler.has_work
    assert (scheduler.stats.num_referenced_blocks, scheduler.stats.num_unreleased) == (3, 1)
    scheduler.let_go(1)
    scheduler.check_integrity()
    assert (scheduler.stats.num_referenced_blocks, scheduler.stats.num_unreleased) == (0, 0)


def test_only_what_has_ended_is_held_and_it_is_let_go_once() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, unique_prompt(1, 10), max_output=1)
    with pytest.raises(SchedulerError, match="not finished"):
        scheduler.hold(1)
    step(scheduler)
    scheduler.hold(1)
    with pytest.raises(SchedulerError, match="not finished"):
        scheduler.hold(1)
    scheduler.let_go(1)
    with pytest.raises(SchedulerError, match="not held"):
        scheduler.let_go(1)


def test_what_the_running_step_reads_keeps_its_blocks_when_it_is_let_go() -> None:
    scheduler = a_scheduler()
    add(scheduler, 1, unique_prompt(1, 10))
    plan = scheduler.schedule()
    scheduler.finish_sequence(1)
    scheduler.hold(1)
    scheduler.let_go(1)
    assert (scheduler.stats.num_referenced_blocks, scheduler.retire()) == (3, [])
    scheduler.check_integrity()
    commit(scheduler, plan)
    assert [sequence.sequence_id for sequence in scheduler.retire()] == [1]
    scheduler.check_integrity()
    assert (scheduler.stats.num_referenced_blocks, scheduler.stats.num_unreleased) == (0, 0)
