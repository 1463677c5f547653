"""What may run: bounds, refusals, and the order in which prompts get their tokens."""

from dataclasses import replace
from typing import Any

import pytest

from dataplane.scheduling.scheduler import (
    Blocker,
    RefusalKind,
    SchedulerConfig,
    SchedulerError,
    StepPlan,
)
from dataplane.scheduling.sequence import Sequence, SequenceStatus
from tests.dataplane.scheduling.stepping import a_scheduler, add, drain, step, unique_prompt


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs is 0"),
        ({"num_blocks": 0}, "num_blocks is 0"),
        ({"max_num_batched_tokens": 3}, "decodes one token a step"),
        ({"max_prefill_tokens_per_step": 0}, "no prompt could ever be computed"),
    ],
)
def test_bounds_under_which_nothing_could_run_are_refused(
    changed: dict[str, Any], message: str
) -> None:
    valid = SchedulerConfig(
        max_num_seqs=4, max_num_batched_tokens=4, max_model_len=8, num_blocks=4, block_size=4
    )
    with pytest.raises(ValueError, match=message):
        replace(valid, **changed)


def test_a_request_beyond_the_models_length_is_refused_with_the_numbers() -> None:
    scheduler = a_scheduler(max_model_len=16)
    fits = Sequence(
        request_id="a", sequence_id=1, prompt_token_ids=unique_prompt(1, 10), max_output_tokens=6
    )
    too_long = Sequence(
        request_id="b", sequence_id=2, prompt_token_ids=unique_prompt(1, 10), max_output_tokens=7
    )
    assert scheduler.add(fits) is None
    refusal = scheduler.add(too_long)
    assert refusal is not None
    assert refusal.kind is RefusalKind.MAX_MODEL_LEN
    assert "10 prompt tokens and up to 7 output tokens exceed the model's 16" in refusal.reason
    assert too_long.status is SequenceStatus.FINISHED
    assert scheduler.stats.num_waiting == 1


def test_a_prompt_beyond_the_whole_pool_is_refused_at_once() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    too_long = Sequence(
        request_id="b", sequence_id=2, prompt_token_ids=unique_prompt(2, 9), max_output_tokens=1
    )
    refusal = scheduler.add(too_long)
    assert refusal is not None
    assert refusal.kind is RefusalKind.POOL
    assert "9 tokens exceed the KV pool's 8 (2 blocks of 4)" in refusal.reason


def test_a_prompt_that_fills_the_pool_still_gets_its_token() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    sequence = add(scheduler, 1, unique_prompt(1, 8), max_output=1)
    drain(scheduler)
    assert sequence.num_output_tokens == 1


def test_a_sequence_alone_that_outgrows_the_pool_ends_with_a_refusal() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    sequence = add(scheduler, 1, unique_prompt(1, 6), max_output=16)
    plans = drain(scheduler)
    (refusal,) = [refusal for plan in plans for refusal in plan.refused]
    assert (refusal.sequence, refusal.kind) == (sequence, RefusalKind.POOL)
    assert sequence.num_tokens == 9  # eight have KV, the ninth was selected
    assert scheduler.stats.num_free_blocks == 2


def test_what_a_refused_sequence_held_serves_the_next_in_the_same_step() -> None:
    scheduler = a_scheduler(num_blocks=2, block_size=4)
    first = add(scheduler, 1, unique_prompt(1, 8), max_output=16)
    second = add(scheduler, 2, unique_prompt(2, 8), max_output=1)
    step(scheduler)
    plan = step(scheduler)
    assert [r.sequence for r in plan.refused] == [first]
    assert plan.released == (first,)
    assert plan.admitted == (second,)


def test_an_id_that_is_in_use_and_a_used_sequence_are_broken_contracts() -> None:
    scheduler = a_scheduler()
    sequence = add(scheduler, 1, (1, 2))
    with pytest.raises(SchedulerError, match="added before"):
        scheduler.add(sequence)
    drain(scheduler)
    with pytest.raises(SchedulerError, match="not new"):
        scheduler.add(sequence)


# Budgets and order


def test_decodes_keep_their_place_when_an_older_prompt_wants_the_whole_step() -> None:
    scheduler = a_scheduler(slots=3, batch=10, prompt_budget=6)
    add(scheduler, 1, unique_prompt(1, 30))
    add(scheduler, 2, unique_prompt(2, 1))
    step(scheduler)  # six tokens of the first
    scheduler.finish("r1")
    long = add(scheduler, 3, unique_prompt(3, 30))
    short = add(scheduler, 4, unique_prompt(4, 1))
    plan = step(scheduler)
    assert [(c.sequence.sequence_id, c.num_tokens) for c in plan.chunks] == [(2, 1), (3, 5)]
    assert plan.deferred_on is Blocker.PROMPT_BUDGET
    plan = step(scheduler)
    assert [(c.is_prefill, c.num_tokens) for c in plan.chunks] == [(False, 1), (True, 6)]
    assert (long.num_computed_tokens, short.status) == (11, SequenceStatus.WAITING)


def test_a_long_prompt_leaves_a_token_for_every_newer_decode() -> None:
    scheduler = a_scheduler(slots=3, batch=8)
    add(scheduler, 1, unique_prompt(1, 4))
    add(scheduler, 2, unique_prompt(2, 4))
    step(scheduler)
    scheduler.finish("r1")
    add(scheduler, 3, unique_prompt(3, 20))
    newest = add(scheduler, 4, (1,))
    assert [c.num_tokens for c in step(scheduler).chunks] == [1, 7]
    newest_waits = newest.status
    plan = step(scheduler)
    assert newest_waits is SequenceStatus.WAITING
    assert plan.deferred_on is Blocker.TOKEN_BUDGET
    assert sum(c.num_tokens for c in plan.chunks) == 8


def test_the_prompt_budget_is_shared_in_arrival_order() -> None:
    scheduler = a_scheduler(prompt_budget=5)
    for sequence_id in (1, 2, 3):
        add(scheduler, sequence_id, unique_prompt(sequence_id, 3))
    plan = step(scheduler)
    assert [(c.sequence.sequence_id, c.num_tokens) for c in plan.chunks] == [(1, 3), (2, 2)]
    plan = step(scheduler)
    assert [(c.sequence.sequence_id, c.num_tokens) for c in plan.chunks] == [
        (1, 1),
        (2, 1),
        (3, 3),
    ]


def test_the_front_of_the_queue_is_never_overtaken() -> None:
    scheduler = a_scheduler(num_blocks=8, block_size=4)
    add(scheduler, 1, unique_prompt(1, 20))
    add(scheduler, 2, unique_prompt(2, 16))  # does not fit beside the first
    small = add(scheduler, 3, (1,))  # would fit
    plan = step(scheduler)
    assert [s.sequence_id for s in plan.admitted] == [1]
    assert plan.deferred_on is Blocker.BLOCKS
    assert small.status is SequenceStatus.WAITING


def test_full_slots_defer_and_say_so() -> None:
    scheduler = a_scheduler(slots=1)
    add(scheduler, 1, (1, 2), max_output=1)
    add(scheduler, 2, (1, 2), max_output=1)
    assert step(scheduler).deferred_on is Blocker.SLOTS
    plan = step(scheduler)
    assert [s.sequence_id for s in plan.admitted] == [2]
    assert plan.deferred_on is None


def test_no_prompt_is_admitted_into_blocks_that_an_unfinished_prompt_still_needs() -> None:
    scheduler = a_scheduler(num_blocks=8, block_size=4, prompt_budget=4)
    add(scheduler, 1, unique_prompt(1, 24))  # six blocks, one a step
    second = add(scheduler, 2, unique_prompt(2, 8))
    for _ in range(5):
        assert step(scheduler).preempted == ()
    assert second.status is SequenceStatus.WAITING


def test_nothing_to_do_is_not_blocked() -> None:
    plan = a_scheduler().schedule()
    assert plan == StepPlan()


def test_blocked_by_blocks_that_no_sequence_holds_says_on_what() -> None:
    scheduler = a_scheduler(num_blocks=4, block_size=4)
    held = scheduler.pool.allocate(3)
    assert held is not None
    waiting = add(scheduler, 1, unique_prompt(1, 8))
    plan = scheduler.schedule()
    assert plan.chunks == ()
    assert plan.blocked_on == "blocks: 1 of 4 blocks free, 0 of 4 slots used, 1 waiting"
    scheduler.pool.release(held)
    assert step(scheduler).admitted == (waiting,)
